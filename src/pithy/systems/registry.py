"""Every system by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pithy.errors import ParameterError
from pithy.settings import System
from pithy.systems import (
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
from pithy.systems.recipe import Recipe
from pithy.values import nearest

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
    """The recipe of a system of params.yaml with its changes, over the run's own `train` settings.

    An unknown recipe is refused with the nearest name, and what only a saved model may say of itself.
    """
    base = system.recipe or name
    if base not in RECIPES:
        where = f"systems.{name}.recipe" if system.recipe else f"systems.{name}"
        raise ParameterError(f"params.yaml: {where}: there is no system {base!r}: {nearest(base, list(RECIPES))}")
    if "backbone" in system.encoder:  # which a saved model's config.json may hold, and no run
        raise ParameterError(f"params.yaml: systems.{name}.encoder.backbone is not a setting: remove it")
    return RECIPES[base].changed(encoder=system.encoder, head=system.head, train={**(train or {}), **system.train})
