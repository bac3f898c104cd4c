"""Registry of all systems by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epigram.core.config_types import nearest
from epigram.core.errors import ParameterError
from epigram.core.settings import System
from epigram.models.recipe import Recipe
from epigram.recipes import (
    baselines,
    bert,
    best,
    cnle,
    dmsp,
    head_to_head,
    label_embedding,
    mhal,
    tagger,
    text_cnn,
    transformer_f,
)

SVM = Recipe(
    name="tfidf_svm",
    about="TF-IDF over token n-grams and a linear SVM: strong, tiny, and the score to beat",
    paper="Joachims (1998)",
    view="token",
    encoder={"kind": "linear_svm"},
    train={"max_length": 512},
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in [
        SVM,
        *baselines.RECIPES,
        *text_cnn.RECIPES,
        *transformer_f.RECIPES,
        *dmsp.RECIPES,
        *bert.RECIPES,
        *cnle.RECIPES,
        *label_embedding.RECIPES,
        *head_to_head.RECIPES,
        *mhal.RECIPES,
        *tagger.RECIPES,
        *best.RECIPES,
    ]
}


def recipe_of(name: str, system: System, train: Mapping[str, Any] | None = None) -> Recipe:
    """Return the recipe of a system of params.yaml with its changes; its own `train` overrides the run's `train`.

    Raises ParameterError with the nearest name for an unknown recipe, and for `encoder.backbone`, which only saved
    models have.
    """
    base = system.recipe or name
    if base not in RECIPES:
        where = f"systems.{name}.recipe" if system.recipe else f"systems.{name}"
        raise ParameterError(f"params.yaml: {where}: there is no system {base!r}: {nearest(base, list(RECIPES))}")
    if "backbone" in system.encoder:  # only in a saved model's config.json
        raise ParameterError(f"params.yaml: systems.{name}.encoder.backbone is not a setting: remove it")
    return RECIPES[base].changed(encoder=system.encoder, head=system.head, train={**(train or {}), **system.train})
