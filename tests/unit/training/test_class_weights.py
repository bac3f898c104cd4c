"""Tests of the settings of the loss of text labels: which weights, in which systems, and where they have no effect."""

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
from epigram.training.check_system import check_system
from epigram.training.config import TrainingConfig
from epigram.training.objectives.class_weights import balanced_weights
from epigram.training.objectives.classification import Classification
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
    prune_model("mine", view, tmp_path / "model", settings, tmp_path / "pruned")
    (options,) = found
    assert options.weight is not None and options.focal_gamma == 2.0
    assert sorted(options.weight.tolist()) == pytest.approx([1000 / 1900, 10.0])


def spec(multi: bool) -> DataSpec:
    return DataSpec(
        vocabulary=16, classes=2, max_length=16, multi=multi, labels=("A", "B"), token_labels=("A", "B"), mask_id=4,
        prefix_ids=(5, 4, 4), pos_weight=torch.ones(16), label_counts=torch.ones(2),
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
        (System(view="v", recipe="mhal_tok", train=LOSS), "class_weight has no effect, because head.sentence_weight"),
    ],
)
def test_a_setting_without_effect_is_refused(system: System, message: str) -> None:
    with pytest.raises(ParameterError, match=f"(?s){message}"):
        check_system("mine", system, {}, spec(False))


def test_class_weights_of_a_linear_svm_have_an_effect() -> None:
    check_system("mine", System(view="v", recipe="tfidf_svm", train={"class_weight": "balanced"}), {}, spec(False))
