"""`preset: paper`: the values that a paper states, against a table written by hand from the papers' settings."""

from __future__ import annotations

from typing import Any

import pytest

from epigram.core.config_types import validate_as
from epigram.core.errors import ParameterError
from epigram.models.recipe import ENCODERS, HEADS, Recipe, parse_part
from epigram.models.settings import System
from epigram.recipes.registry import PRESETS, RECIPES, recipe_of
from epigram.text.settings import ViewSettings
from epigram.training.check_system import unused_settings
from epigram.training.config import configure
from epigram.training.preflight import placeholder_spec

ADAM = {"train.optimizer": "adam", "train.weight_decay": 0.0}
TRANSFORMER = {
    **ADAM,
    "encoder.width": 512,
    "encoder.depth": 6,
    "encoder.heads": 1,
    "encoder.hidden": 2048,
    "encoder.activation": "relu",
    "encoder.positions": "sinusoidal",
    "encoder.embedding_norm": False,
    "train.learning_rate": 0.0005,
}
HOOK = {"head.hook_a": 0.4, "head.hook_b": 2.9}
CORRELATION = {**TRANSFORMER, "encoder.row_norm": True, "encoder.temperature": 1.0}
FINE_TUNED = {
    "train.optimizer": "adamw",
    "train.learning_rate": 0.00002,
    "train.batch_size": 64,
    "train.clip": 10.0,
    "train.patience_steps": 1000,
}
HTH = {**FINE_TUNED, "encoder.head_to_head": "paper", "encoder.site": "scores"}
PERCEPTRON = {**ADAM, "encoder.width": 64, "encoder.hidden": 512, "head.hidden": 128, "train.max_length": 100}
CONTROL = {**PERCEPTRON, "encoder.depth": 5, "head.loss": "all", "head.rule": "equation", "head.drop": "last"}
ENCODER1_ENCODER2 = {
    "encoder.filters": 128,
    "encoder.sizes": [3, 5, 7],
    "encoder.mode": "attend",
    "encoder.dropout": 0.2,
    "head.dropout": 0.2,
    "train.optimizer": "adadelta",
    "train.learning_rate": 1.0,
    "train.epsilon": 1e-6,
    "train.weight_decay": 0.0,
    "train.schedule": "constant",
    "train.warmup": 0.0,
    "train.clip": None,
    "train.batch_size": 128,
    "train.max_length": 128,
    "train.epochs": 100,
    "train.evaluation_steps": 500,
    "train.patience": 10,
}
MHAL = {
    "encoder.embedding": 300,
    "encoder.width": 300,
    "encoder.character_embedding": 100,
    "encoder.character_width": 100,
    "encoder.spelling": 50,
    "encoder.dropout": 0.5,
    "head.hidden": 200,
    "head.text_hidden": 50,
    "head.dropout": 0.5,
    "train.optimizer": "adadelta",
    "train.learning_rate": 1.0,
    "train.epsilon": 1e-8,
    "train.weight_decay": 0.0,
    "train.schedule": "plateau",
    "train.warmup": 0.0,
    "train.clip": None,
    "train.batch_size": 32,
    "train.epochs": 200,
    "train.patience": 7,
    "train.stop_on": "sentence_f1",
}
MHAL_ALL = {
    **MHAL,
    "encoder.lm_weight": 0.1,
    "encoder.lm_spelling": "words",
    "encoder.lm_hidden": 50,
    "encoder.lm_vocabulary": 7500,
    "head.attention_weight": 0.01,
    "head.query_weight": 0.5,
    "head.smoothing": 0.15,
    "head.smoothing_over": "token_labels",
    "head.default_target": "smoothed",
}
PAPERS: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "transformer_pos": TRANSFORMER,
    "transformer_cor": CORRELATION,
    "transformer_hook": {**TRANSFORMER, **HOOK},
    "transformer_f": {**CORRELATION, **HOOK},
    "bert": FINE_TUNED,
    "bert_cnn": FINE_TUNED,
    "bert_pta": {**FINE_TUNED, "head.gamma": 0.5},
    "roberta": FINE_TUNED,
    "albert": FINE_TUNED,
    "macbert": FINE_TUNED,
    "ernie": FINE_TUNED,
    "xlnet": FINE_TUNED,
    "bert_hth": HTH,
    "bert_hth_paper": HTH,
    "bert_hth_pta": {**HTH, "head.gamma": 0.5},
    "bert_hth_pta_paper": {**HTH, "head.gamma": 0.5},
    "cnle": {
        **ADAM,
        "encoder.embedding": 300,
        "encoder.width": 256,
        "encoder.dropout": 0.2,
        "encoder.state_dropout": 0.4,
        "head.embedding": 300,
        "head.heads": 4,
        "head.hidden": 150,
        "head.dropout": 0.2,
        "train.beta2": 0.98,
        "train.epsilon": 1e-9,
        "train.schedule": "inverse_sqrt",
        "train.warmup": 1.0,
        "train.warmup_steps": 800,
        "train.clip": 1.0,
    },
    "mlp": {**PERCEPTRON, "encoder.hidden": 1024, "encoder.depth": 2},
    "smsp": {**PERCEPTRON, "encoder.depth": 5, "head.mode": "deep"},
    "smsp_e": {**PERCEPTRON, "encoder.depth": 3, "head.loss": "all"},
    "dc": CONTROL,
    "dmsp": CONTROL,
    "mhal_sent": MHAL,
    # "the token-level classification performance, adopted by all models that receive some token annotation"
    "mhal_tok": {**MHAL, "train.stop_on": "token"},
    "mhal_sent_tok": {**MHAL, "train.stop_on": "token"},
    "mhal_joint": {**MHAL_ALL, "train.stop_on": "token"},
    "mhal_zero": MHAL_ALL,
    "textcnn": {"encoder.filters": 256, "encoder.sizes": [2, 3, 4]},
    "encoder1_encoder2": ENCODER1_ENCODER2,
    "fast_text": {"encoder.orders": [2, 3]},
    "dpcnn": {"encoder.filters": 250, "encoder.levels": 7},
    "att_blstm": {"encoder.width": 128},
}
# a recipe's own heads: 1 is for a user who sets attention: dot
KEPT = {("transformer_cor", "encoder.heads"), ("transformer_f", "encoder.heads")}


def system_of(name: str, **settings: Any) -> System:
    return validate_as(System, {"view": "v", "recipe": name, **settings}, "systems.x")


def values_of(recipe: Recipe) -> dict[str, Any]:
    """Return every setting of a recipe's parts and training: key → value."""
    parts = {
        "encoder": parse_part(ENCODERS, recipe.encoder, ""),
        "head": parse_part(HEADS, recipe.head, ""),
        "train": configure("x", recipe),
    }
    return {f"{part}.{key}": value for part, config in parts.items() for key, value in vars(config).items()}


def test_every_preset_is_in_the_table() -> None:
    assert set(PRESETS) == set(PAPERS)


@pytest.mark.parametrize("name", PAPERS)
def test_a_preset_has_the_values_of_the_paper_and_ours_where_the_paper_is_silent(name: str) -> None:
    ours = values_of(recipe_of("x", system_of(name), checkpoint="some"))
    assert values_of(recipe_of("x", system_of(name, preset="paper"), checkpoint="some")) == {**ours, **PAPERS[name]}


@pytest.mark.parametrize("name", PAPERS)
def test_a_preset_names_what_the_table_names_and_nothing_without_effect(name: str) -> None:
    preset = PRESETS[name]
    stated = {f"{part}.{key}" for part in ("encoder", "head", "train") for key in getattr(preset, part)}
    assert stated == set(PAPERS[name])
    view = ViewSettings(prompt=RECIPES[name].view.endswith("prompt"), characters=True)
    context = placeholder_spec(view, multi=False, tokens=True)
    recipe = RECIPES[name].changed(encoder=preset.encoder, head=preset.head, train=preset.train)
    unused = unused_settings(recipe, configure("x", recipe), context)
    assert {(name, key) for key in stated & set(unused)} <= KEPT


def test_settings_of_the_user_override_the_preset() -> None:
    own = {"encoder": {"width": 64}, "train": {"learning_rate": 1e-2}}
    recipe = recipe_of("x", system_of("transformer_f", preset="paper", **own), {"weight_decay": 0.1})
    values = values_of(recipe)
    assert (values["encoder.width"], values["encoder.depth"]) == (64, 6)
    assert [values[f"train.{key}"] for key in ("optimizer", "learning_rate", "weight_decay")] == ["adam", 1e-2, 0.1]


def test_another_encoder_keeps_the_training_of_the_preset_only() -> None:
    recipe = recipe_of("x", system_of("transformer_f", preset="paper", encoder={"kind": "bilstm"}))
    assert recipe.encoder == {"kind": "bilstm"} and recipe.train["optimizer"] == "adam"


@pytest.mark.parametrize("name", sorted(set(RECIPES) - set(PAPERS)))
def test_a_system_of_which_the_papers_state_nothing_has_no_preset(name: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        recipe_of("x", system_of(name, preset="paper"))
    said = f"params.yaml: systems.x.preset is 'paper', but the papers state no settings of {name}; remove it"
    assert str(refusal.value) == said


@pytest.mark.parametrize("name", ["bert", "bert_hth_pta"])
def test_a_preset_for_a_checkpoint_needs_one(name: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        recipe_of("x", system_of(name, preset="paper"))
    assert str(refusal.value) == (
        "params.yaml: systems.x.preset is 'paper': the paper fine-tunes a pretrained encoder; set views.v.checkpoint, "
        "or remove preset"
    )


def test_the_only_preset_is_that_of_the_paper() -> None:
    with pytest.raises(ParameterError, match=r"^params\.yaml: systems\.x\.preset is 'papers'; expected 'paper'$"):
        system_of("cnle", preset="papers")
