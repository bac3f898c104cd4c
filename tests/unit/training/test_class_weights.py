"""Settings of the loss of text labels, and settings without effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from epigram.core.effects import unused
from epigram.core.errors import ParameterError
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.models.predict import predict
from epigram.models.recipe import HEADS, Recipe
from epigram.models.serialization import load
from epigram.models.settings import System
from epigram.nn.layers.loss import PLAIN, LossOptions
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.pruning.prune_model import prune_model
from epigram.pruning.settings import PruneSettings
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import PretrainSettings, ViewSettings
from epigram.training.check_system import check_system, unused_settings
from epigram.training.config import TrainingConfig, configure
from epigram.training.objectives.classification import Classification, balanced_weights
from epigram.training.preflight import placeholder_spec
from tests.support.trained import train_seed

LOSS = {"class_weight": "balanced", "label_smoothing": 0.2, "focal_gamma": 1.0}
SMALL = {"kind": "embedding", "width": 16}
TRAINED = Recipe(name="mine", about="", paper="", view="token", encoder=SMALL)
FROZEN = Recipe(name="mine", about="", paper="", view="token", model={"kind": "frozen_classifier"}, encoder=SMALL)


def test_the_weights_are_scikit_learn_s() -> None:
    labels = np.array([0] * 90 + [1] * 9 + [3])
    wanted = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=labels)
    assert balanced_weights(labels).tolist() == pytest.approx([wanted[0], wanted[1], 1.0, wanted[2]])


def test_the_weight_of_a_label_balances_the_texts_with_it_and_those_without() -> None:
    labels = np.array([[1, 1, 0, 1]] * 2 + [[0, 1, 0, 1]] * 5 + [[0, 1, 0, 0]])
    assert balanced_weights(labels).tolist() == pytest.approx([6 / 2, 1.0, 1.0, 1 / 7])


def unbalanced(frequent: int, rare: int) -> list[tuple[str, str]]:
    """Return texts of two labels; the word "so" is in all of the rare label and in as many of the other as make 3:1."""
    return [("well so" if n < 3 * rare else "well good", "neg") for n in range(frequent)] + [("well so", "pos")] * rare


@pytest.fixture
def view(encoded: Callable[..., View]) -> View:
    """Three of four training texts with "so" are of the frequent label, which wins unless classes are balanced.

    On dev it is the other way round: the accuracy there prefers a model that finds the rare label.
    """
    dev = [("well so", "pos")] * 5 + [("well good", "neg")]
    return encoded({"train": unbalanced(950, 50), "dev": dev, "test": unbalanced(95, 5)}, language="en")


def recall(folder: Path, view: View) -> float:
    """Return the share of the test texts of the rare label that are predicted as such."""
    saved, few = load(folder), view.labels.index("pos")
    predicted = predict(saved.model, batches_of(view, "test", saved.frame)).logits.argmax(1)
    return float((predicted[np.array(view.split("test").labels) == few] == few).mean())


@pytest.mark.parametrize("recipe", [TRAINED, FROZEN, RECIPES["tfidf_svm"]], ids=["trained", "frozen", "tfidf_svm"])
@pytest.mark.parametrize(("class_weight", "wanted"), [("none", 0.0), ("balanced", 1.0)])
def test_balanced_classes_find_the_rare_one(
    recipe: Recipe, class_weight: Any, wanted: float, view: View, tmp_path: Path
) -> None:
    config = TrainingConfig(epochs=30, learning_rate=0.05, precision="fp32", threads=1, class_weight=class_weight)
    train_seed("mine", recipe, config, view, None, 0, tmp_path / "model")
    assert recall(tmp_path / "model", view) == wanted


def test_pruning_fine_tunes_with_the_same_loss(view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 2}
    recipe = Recipe(name="mine", about="", paper="", view="token", encoder=encoder)
    config = TrainingConfig(epochs=1, precision="fp32", threads=1, class_weight="balanced", focal_gamma=2.0)
    train_seed("mine", recipe, config, view, None, 0, tmp_path / "model")
    found: list[LossOptions] = []
    prepare = Classification.prepare

    def noted(self: Classification, model: Any) -> None:
        prepare(self, model)
        found.append(model.head.loss_options)

    monkeypatch.setattr(Classification, "prepare", noted)
    settings = PruneSettings(threshold=0.0, rule="shallowest", tolerance=1.0, epochs=1)
    prune_model("mine", view, tmp_path / "model", settings, "auto", tmp_path / "pruned")
    (options,) = found
    assert options.weight is not None and options.focal_gamma == 2.0
    assert sorted(options.weight.tolist()) == pytest.approx([1000 / 1900, 10.0])


def spec(multi: bool) -> DataSpec:
    return DataSpec(
        vocabulary=16, classes=2, max_length=16, multi=multi, labels=("A", "B"), token_labels=("A", "B"), mask_id=4,
        prefix_ids=(5, 4, 4), pos_weight=torch.ones(16), label_shares=torch.full((2,), 0.5),
    )  # fmt: skip


def without_effect(model: Any, multi: bool) -> set[str]:
    """Return the settings of the loss that have no effect on `model`."""
    found = unused(TrainingConfig(), "train", {"head": model.head.config, "data": spec(multi)})
    return {key.removeprefix("train.") for key in found} & set(LOSS)


@pytest.mark.parametrize("setting", LOSS)
@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("head", sorted(HEADS))
def test_a_setting_changes_the_loss_of_a_head_or_is_refused(head: str, multi: bool, setting: str) -> None:
    """A new head either calls `text_loss` or a note of the setting names the head."""
    encoder = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 2, "dropout": 0.0}
    recipe = Recipe(name="mine", about="", paper="", view="v", encoder=encoder, head={"kind": head})
    try:
        model: Any = recipe.build(spec(multi))
    except ParameterError:
        return  # the head has no form for several labels
    torch.manual_seed(0)
    ids = torch.tensor([[5, 4, 4, 6, 7], [5, 4, 4, 8, 9]])
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool), labels=torch.tensor([[0, 0, 0, 1, 0]] * 2))
    labels = torch.tensor([[1, 0], [1, 1]]) if multi else torch.tensor([0, 1])
    plain, changed = [], LossOptions(**{
        "class_weight": {"weight": torch.tensor([0.5, 3.0])}, "label_smoothing": {"smoothing": 0.3},
        "focal_gamma": {"focal_gamma": 1.0},
    }[setting])  # fmt: skip
    model.eval()
    for options in (PLAIN, changed):
        model.head.loss_options = options
        torch.manual_seed(0)
        plain.append(float(model(tokens, labels).loss.detach()))
    assert (plain[0] == plain[1]) == (setting in without_effect(model, multi))


def test_the_weights_of_the_classes_apply_to_both_masks_of_a_prompt() -> None:
    """With γ = 0, only the second mask has a loss."""
    encoder = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 1}
    head = {"kind": "prompt", "gamma": 0.0}
    model: Any = Recipe(name="mine", about="", paper="", view="v", encoder=encoder, head=head).build(spec(False)).eval()
    ids = torch.tensor([[5, 4, 4, 6, 7]])
    tokens, label = Tokens(ids, torch.ones_like(ids, dtype=torch.bool)), torch.tensor([1])
    plain = model(tokens, label).loss
    model.head.loss_options = LossOptions(weight=torch.tensor([0.5, 3.0]))
    assert model(tokens, label).loss.item() == pytest.approx(3 * plain.item())
    assert without_effect(model, False) == {"label_smoothing", "focal_gamma"}


@pytest.mark.parametrize(
    ("system", "message"),
    [
        (System(view="v", recipe="random", train=LOSS), "class_weight has no effect.*label_smoothing.*focal_gamma"),
        (System(view="v", recipe="tfidf_svm", train=LOSS), "train.label_smoothing has no effect.*focal_gamma"),
        (System(view="v", recipe="tfidf_svm", prune=True), "mine.prune has no effect, because the model linear_svm"),
        (System(view="v", recipe="mhal_tok", train=LOSS), "class_weight has no effect, because head.sentence_weight"),
    ],
)
def test_a_setting_without_effect_is_refused(system: System, message: str) -> None:
    with pytest.raises(ParameterError, match=f"(?s){message}"):
        check_system("mine", system, {}, spec(False))


def test_class_weights_of_a_linear_svm_have_an_effect() -> None:
    check_system("mine", System(view="v", recipe="tfidf_svm", train={"class_weight": "balanced"}), {}, spec(False))


NO_GRADIENT = "the model linear_svm is not trained by gradient descent"
CORRELATION, DOT = "encoder.attention is 'correlation'", "encoder.attention is 'dot'"
UNUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"recipe": "transformer", "encoder": {"attention": "correlation", "heads": 2}}, "encoder.heads", CORRELATION),
    ({"recipe": "transformer_f", "encoder": {"heads": 1}}, "encoder.heads", CORRELATION),
    ({"recipe": "transformer", "encoder": {"temperature": 0.5}}, "encoder.temperature", DOT),
    ({"recipe": "transformer", "encoder": {"row_norm": True}}, "encoder.row_norm", DOT),
    ({"recipe": "transformer_f", "encoder": {"attention": "dot", "learn_temperature": True}},
     "encoder.learn_temperature", DOT),
    ({"recipe": "transformer", "encoder": {"site": "context"}}, "encoder.site", "encoder.head_to_head is 'none'"),
    ({"recipe": "bert", "encoder": {"site": "context"}}, "encoder.site", "encoder.head_to_head is 'none'"),
    ({"recipe": "bert", "encoder": {"temperature": 2.0}}, "encoder.temperature", DOT),
    ({"recipe": "roberta", "encoder": {"small": {"positions": "none"}}},
     "encoder.small.positions", "encoder.family is 'roberta'"),
    ({"recipe": "macbert", "encoder": {"attention": "correlation", "small": {"heads": 2}}},
     "encoder.small.heads", CORRELATION),
    ({"recipe": "mlp", "encoder": {"average": 3}}, "encoder.average", "encoder.order is 'none'"),
    ({"recipe": "universal_transformer", "encoder": {"depth": 1, "ponder": 0.5}},
     "encoder.ponder", "encoder.depth is 1"),
    ({"recipe": "mhal_sent", "encoder": {"spelling": 9}}, "encoder.spelling", "the view has no characters"),
    ({"recipe": "mhal_sent", "encoder": {"lm_hidden": 9}}, "encoder.lm_hidden", "encoder.lm_weight is 0.0"),
    ({"recipe": "mhal_sent", "head": {"smoothing": 0.1}}, "head.smoothing", "head.attention_weight is 0.0"),
    ({"recipe": "mhal_sent", "head": {"absolute": True}}, "head.absolute", "head.query_weight is 0.0"),
    ({"recipe": "cnle", "head": {"beam": 4}}, "head.beam", "a text has one label"),
    ({"recipe": "smsp", "head": {"loss": "last"}}, "head.loss", "head.mode is 'last'"),
    ({"recipe": "smsp_e", "head": {"threshold": 0.5}}, "head.threshold", "head.mode is 'ensemble'"),
    ({"recipe": "dmsp", "head": {"threshold": 0.5, "tolerance": 0.1}}, "head.tolerance", "head.threshold is 0.5"),
    ({"recipe": "vdcnn", "head": {"pool": "max"}}, "head.pool", "the encoder has one state per text"),
    ({"recipe": "textcnn", "train": {"optimizer": "adadelta", "beta2": 0.9}},
     "train.beta2", "train.optimizer is 'adadelta'"),
    ({"recipe": "fast_text", "train": {"beta2": 0.9}}, "train.beta2", "train.optimizer is 'row_adagrad'"),
    ({"recipe": "fast_text", "train": {"weight_decay": 0.1}},
     "train.weight_decay", "train.optimizer is 'row_adagrad'"),
    ({"recipe": "textcnn", "train": {"warmup": 0, "warmup_steps": 9}}, "train.warmup_steps", "train.warmup is 0.0"),
    ({"recipe": "textcnn", "train": {"patience": 3, "patience_steps": 1000}},
     "train.patience", "train.patience_steps is 1000"),
    ({"recipe": "textcnn", "train": {"evaluations": 2, "evaluation_steps": 100}},
     "train.evaluations", "train.evaluation_steps is 100"),
    ({"recipe": "textcnn", "train": {"token_supervision": 0.5}},
     "train.token_supervision", "the head linear does not learn from token labels"),
    ({"recipe": "mhal_zero", "train": {"token_supervision": 0.5}},
     "train.token_supervision", "the head attention_labeler does not learn from token labels"),
    ({"recipe": "tfidf_svm", "train": {"epochs": 3}}, "train.epochs", NO_GRADIENT),
]  # fmt: skip


def checked(
    system: dict[str, Any], shared: dict[str, Any] | None = None, *, multi: bool = False, tokens: bool = True
) -> list[str]:
    context = placeholder_spec(ViewSettings(), multi=multi, tokens=tokens)
    return check_system("x", System(view="v", **system), shared or {}, context)


@pytest.mark.parametrize(("system", "key", "reason"), UNUSED, ids=[f"{each[0]['recipe']}-{each[1]}" for each in UNUSED])
def test_a_setting_without_effect_is_refused_with_the_reason(system: dict[str, Any], key: str, reason: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        checked(system)
    assert str(refusal.value) == f"params.yaml: systems.x.{key} has no effect, because {reason}; remove it"


@pytest.mark.parametrize(
    "system",
    [
        {"recipe": "transformer", "encoder": {"attention": "correlation", "temperature": 0.5, "row_norm": False}},
        {"recipe": "transformer_hth", "encoder": {"site": "context", "heads": 2}},
        {"recipe": "bert_hth", "encoder": {"small": {"heads": 2}}},
        {"recipe": "transformer_f", "encoder": {"attention": "dot"}},  # the recipe's own heads: 1 is used now
        {"recipe": "smsp", "encoder": {"average": 3}},
        {"recipe": "dmsp", "head": {"tolerance": 0.1, "rule": "algorithm", "drop": "worst"}},
        {"recipe": "mhal_joint", "head": {"smoothing": 0.1, "absolute": True}, "train": {"token_supervision": 0.5}},
        {"recipe": "vdcnn", "head": {"pool": "attention"}},
        {"recipe": "textcnn", "train": {"optimizer": "adadelta", "epsilon": 1e-6, "warmup_steps": 9}},
        {"recipe": "textcnn", "train": {"patience": 3, "evaluation_steps": 100}},
        {"recipe": "fast_text", "train": {"optimizer": "adamw", "beta2": 0.9, "weight_decay": 0.1, "clip": 1.0}},
        {"recipe": "fast_text", "head": {"pool": "max"}, "train": {"epsilon": 1e-6, "max_tokens": 9, "rollbacks": 1}},
        {"recipe": "macbert", "encoder": {"attention": "correlation", "small": {"width": 6}}},
        {"recipe": "tfidf_svm", "train": {"max_length": 9}},
    ],
    ids=lambda system: str(system["recipe"]),
)
def test_a_setting_with_an_effect_is_taken(system: dict[str, Any]) -> None:
    assert checked(system) == []


def test_settings_of_the_decoder_have_an_effect_on_several_labels() -> None:
    assert checked({"recipe": "cnle", "head": {"beam": 4, "max_labels": 2, "order": "shuffle"}}, multi=True) == []


def test_the_width_of_a_search_that_chooses_one_label_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"head\.beam has no effect, because head\.max_labels is 1; remove it"):
        checked({"recipe": "cnle", "head": {"beam": 4, "max_labels": 1}}, multi=True)


def test_token_supervision_is_refused_for_data_without_token_labels() -> None:
    with pytest.raises(ParameterError, match=r"train\.token_supervision has no effect, because the data have no token"):
        checked({"recipe": "textcnn", "train": {"token_supervision": 0.5}}, tokens=False)


def test_every_setting_without_effect_is_named_at_once() -> None:
    with pytest.raises(ParameterError) as refusal:
        checked({"recipe": "transformer", "encoder": {"site": "scores", "row_norm": False}, "train": {"beta2": 0.9}})
    named = [line.split()[1] for line in str(refusal.value).splitlines()]
    assert named == ["systems.x.encoder.site", "systems.x.encoder.row_norm"]


def test_settings_that_all_systems_share_are_warned_of_by_reason() -> None:
    shared = {"beta2": 0.9, "warmup": 0.0, "epochs": 2, "warmup_steps": 3}
    assert checked({"recipe": "textcnn", "train": {"optimizer": "adadelta"}}, shared) == [
        "params.yaml: no effect: train.beta2 (train.optimizer is 'adadelta')",
        "params.yaml: no effect: train.warmup_steps (train.warmup is 0.0)",
    ]
    names = "train.epochs, train.beta2, train.warmup, train.warmup_steps"
    assert checked({"recipe": "tfidf_svm"}, shared) == [f"params.yaml: no effect: {names} ({NO_GRADIENT})"]


@pytest.mark.parametrize(("recipe", "kind"), [("textcnn", "convolution"), ("tfidf_svm", "linear_svm"), ("bert", None)])
def test_pretraining_that_a_system_does_not_use_is_warned_of(recipe: str, kind: str | None) -> None:
    context = placeholder_spec(ViewSettings(pretrain=PretrainSettings()), multi=False, tokens=False)
    said = f"params.yaml: no effect: views.v.pretrain ({kind} does not start from pretrained weights)"
    assert check_system("x", System(view="v", recipe=recipe), {}, context) == ([said] if kind else [])


# The recipe keeps them for a user who changes what they depend on.
KEPT = {("transformer_cor", "encoder.heads"), ("transformer_f", "encoder.heads"), ("vdcnn", "head.pool")}


@pytest.mark.parametrize("checkpoint", [None, "minilm"])
def test_a_recipe_sets_nothing_without_effect(checkpoint: str | None) -> None:
    found = set()
    for name, registered in RECIPES.items():
        view, recipe = (
            ViewSettings(prompt=registered.view.endswith("prompt"), characters=True),
            registered.starting_from(checkpoint),
        )
        context = placeholder_spec(view, multi=False, tokens=True)
        own = {f"{part}.{key}" for part in ("encoder", "head", "train") for key in getattr(recipe, part)}
        found |= {(name, key) for key in own & set(unused_settings(recipe, configure(name, recipe), context))}
    assert found == KEPT
