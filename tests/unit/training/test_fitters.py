"""Tests of the fitters: one for each kind of model, chosen by the kind that the recipe names."""

from __future__ import annotations

from typing import Any

import pytest

from epigram.models.recipe import MODELS
from epigram.recipes.registry import RECIPES
from epigram.training import fitters
from epigram.training.config import configure
from epigram.training.fit_system import fit_system
from tests.support.text_samples import EN
from tests.support.trained import setup_of


def test_every_kind_of_model_has_a_fitter() -> None:
    assert set(fitters.KINDS) == set(MODELS)
    assert {recipe.kind for recipe in RECIPES.values()} == set(MODELS)


@pytest.mark.parametrize("name", ["random", "tfidf_svm", "textcnn", "embedding_linear", "setfit"])
def test_the_kind_of_the_model_chooses_the_fitter(name: str, encoded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {
        "random": "random_baseline",
        "tfidf_svm": "linear_svm",
        "textcnn": "classifier",
        "embedding_linear": "frozen_classifier",
        "setfit": "contrastive_classifier",
    }
    used: list[str] = []
    for kind in list(fitters.KINDS):
        monkeypatch.setitem(fitters.KINDS._parts, kind, lambda *_, kind=kind: used.append(kind))
    fit_system(setup_of(RECIPES[name], configure(name, RECIPES[name]), encoded(EN, "en")))
    assert used == [kinds[name]]


def test_a_system_may_take_another_kind_of_model_in_params_yaml(encoded: Any) -> None:
    recipe = RECIPES["textcnn"].changed(model={"kind": "linear_svm", "orders": [1]})
    trained = fit_system(setup_of(recipe, configure("mine", recipe), encoded(EN, "en")))
    assert (trained.model.config.kind, trained.model.config.orders, trained.history) == ("linear_svm", [1], [])
