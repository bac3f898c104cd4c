"""Settings of params.yaml without effect: refused by name in a system, a warning in the section that all share."""

from __future__ import annotations

from typing import Any

import pytest

from epigram.core.errors import ParameterError
from epigram.models.settings import System
from epigram.recipes.registry import RECIPES
from epigram.text.settings import PretrainSettings, ViewSettings
from epigram.training.check_system import check_system, unused_settings
from epigram.training.config import configure
from epigram.training.preflight import placeholder_spec

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
