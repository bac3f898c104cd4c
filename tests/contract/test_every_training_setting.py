"""Every training setting changes the trained model or its history; otherwise it is reported as without effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from epigram.core.errors import ParameterError
from epigram.inference.predictors.dataset_batches import data_spec_of
from epigram.models.recipe import Recipe
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.text.pos.pos_table import build, save
from epigram.text.settings import PosTableSettings
from epigram.training import optimizers
from epigram.training.check_system import unused_settings
from epigram.training.config import TrainingConfig, configure
from epigram.training.distributed.resources import resolve_threads
from epigram.training.fit_system import fit_system
from tests.support.other_values import other_values
from tests.support.text_samples import encoded_in
from tests.support.trained import setup_of

USUAL = {
    "epochs": 6,
    "patience": 9,
    "batch_size": 6,
    "learning_rate": 0.05,
    "warmup": 0.4,
    "precision": "fp32",
    "schedule": "linear",
}
OTHERS: dict[str, list[Any]] = {  # where the type does not give a value that matters for so few texts
    "epochs": [3],
    "min_steps": [30],
    "max_tokens": [12],
    "max_length": [2],
    "optimizer": list(optimizers.KINDS),
    "warmup_steps": [1],
    "clip": [1e-3],
    "patience": [1],
    "epsilon": [0.1],
    "weight_decay": [0.9],
    "precision": ["bf16"],
    "token_supervision": [0.5],
    "layer_decay": [0.5],
    "beta2": [0.5],
    "threads": [],  # below
    "processes": [],  # read by the stage
}
BASES: dict[str, dict[str, Any]] = {
    "adamw": {},
    "adadelta": {"optimizer": "adadelta", "learning_rate": 1.0},
    "no warm-up": {"warmup": 0.0},
    "steps": {"patience_steps": 10, "evaluation_steps": 2},
}
NEEDS_DIVERGENCE = "rollbacks"
NEEDS_RARE_CLASS = "class_weight"  # both classes are equally frequent here
TAGGER = RECIPES["bilstm_tagger"].changed(encoder={"width": 8})
UNTAGGED = RECIPES["att_blstm"].changed(encoder={"width": 8})


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Return texts with token labels; dev contradicts train, so that the best epoch is an early one."""
    pos = tmp_path_factory.mktemp("pos")
    save(build(PosTableSettings()), pos, {})

    def rows(good: str, bad: str, count: int) -> list[tuple[Any, ...]]:
        words = {"good": good, "bad": bad}
        return [
            (f"{word} it {n % 3} x", label, [word, "it", str(n % 3), "x"], [label, "O", "O", "O"])
            for n in range(count)
            for word, label in words.items()
        ]

    corpus = {"train": rows("pos", "neg", 9), "dev": rows("neg", "pos", 2), "test": rows("pos", "neg", 1)}
    return encoded_in(tmp_path_factory.mktemp("view"), pos, corpus, "en", token_labels=["O", "neg", "pos"])


@pytest.fixture(scope="module")
def outcome(view: View) -> Callable[..., Any]:
    """Return a function that trains a system and returns its weights and its history, or the error."""

    def run(recipe: Recipe, **settings: Any) -> Any:
        recipe = recipe.changed(train={**USUAL, **settings})
        try:
            trained = fit_system(setup_of(recipe, configure("x", recipe), view, name="x"))
        except ParameterError as error:
            return str(error)
        weights = {name: value.tolist() for name, value in trained.model.state_dict().items()}
        return str((weights, trained.history, trained.epoch))

    return run


def unused(recipe: Recipe, view: View, **settings: Any) -> set[str]:
    recipe = recipe.changed(train={**USUAL, **settings})
    config = configure("x", recipe)
    context = data_spec_of(view, config.max_length)
    return {key for key in unused_settings(recipe, config, context) if key.startswith("train.")}


def others_of(name: str, value: Any) -> list[Any]:
    others = OTHERS[name] if name in OTHERS else other_values(TrainingConfig, name, value)
    return [other for other in others if other != value]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("recipe", [TAGGER, UNTAGGED], ids=lambda recipe: recipe.name)
def test_a_training_setting_has_an_effect_or_is_reported(
    recipe: Recipe, base: str, view: View, outcome: Callable[..., Any]
) -> None:
    given, usual, silent = vars(TrainingConfig(**{**USUAL, **BASES[base]})), outcome(recipe, **BASES[base]), []
    names = [
        field.name
        for field in fields(TrainingConfig)
        if field.name not in {NEEDS_DIVERGENCE, NEEDS_RARE_CLASS, "threads", "processes"}
    ]
    for name in names if recipe is TAGGER else ["token_supervision"]:
        settings = [{**BASES[base], name: other} for other in others_of(name, given[name])]
        if name == "stop_on" and recipe is not TAGGER:
            continue
        changed = [outcome(recipe, **each) != usual for each in settings]
        if f"train.{name}" in unused(recipe, view, **BASES[base]):
            assert not any(changed), f"train.{name} is said to have no effect"
        elif not any(changed):
            silent.append(name)
    assert not silent, "settings without effect that no message names"


def test_no_two_schedules_and_no_two_optimizers_train_the_same(outcome: Callable[..., Any]) -> None:
    for name in ("schedule", "optimizer"):
        values = {*others_of(name, None), USUAL.get(name, "adamw")}
        assert len({outcome(TAGGER, **{name: value}) for value in values}) == len(values) > 2


def test_rollbacks_have_an_effect_where_training_diverges(outcome: Callable[..., Any]) -> None:
    steep = {"learning_rate": 1e30, "optimizer": "adam"}
    assert "NaN or infinite" in outcome(TAGGER, **steep) != outcome(TAGGER, **steep, rollbacks=1)


def test_threads_are_those_of_the_process() -> None:
    for count in (1, 3):
        assert resolve_threads(TrainingConfig(threads=count), TAGGER, None).threads == count


@pytest.mark.parametrize("name", ["tfidf_svm", "random"])
def test_a_model_without_gradients_reads_the_maximum_length_and_the_class_weights(
    name: str, view: View, outcome: Callable[..., Any]
) -> None:
    recipe = RECIPES[name]
    used = {"train.max_length"} | ({"train.class_weight"} if name == "tfidf_svm" else set())
    assert unused(recipe, view) == {f"train.{field.name}" for field in fields(TrainingConfig)} - used
    usual = outcome(recipe, max_length=9)
    changes = {
        field.name: others_of(field.name, getattr(TrainingConfig(), field.name)) for field in fields(TrainingConfig)
    }
    for setting, others in changes.items():
        for other in others if setting not in {"max_length", "stop_on", NEEDS_RARE_CLASS} else []:
            assert outcome(recipe, **{"max_length": 9, setting: other}) == usual, setting


def test_a_model_that_learns_from_pairs_reads_the_settings_of_its_training(
    view: View, outcome: Callable[..., Any]
) -> None:
    small = {"small": {"width": 8, "hidden": 8, "heads": 2}}
    recipe = RECIPES["setfit"].changed(encoder=small, train={"min_steps": 0})
    read, usual = set(recipe.train_settings or ()), outcome(recipe)
    assert unused(recipe, view) == {f"train.{field.name}" for field in fields(TrainingConfig)} - {
        f"train.{name}" for name in read
    }
    given = vars(TrainingConfig(**USUAL))
    for name in given.keys() - {NEEDS_DIVERGENCE, NEEDS_RARE_CLASS, "threads", "processes", "stop_on"}:
        changed = [outcome(recipe, **{name: other}) != usual for other in others_of(name, given[name])]
        assert any(changed) == (name in read), name


def test_the_maximum_length_changes_a_model_without_gradients(outcome: Callable[..., Any]) -> None:
    assert outcome(RECIPES["tfidf_svm"], max_length=1) != outcome(RECIPES["tfidf_svm"], max_length=9)
