"""Registry of all systems by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from epigram.core.config_types import nearest
from epigram.core.errors import ParameterError
from epigram.core.registry import module_names
from epigram.models.recipe import Recipe
from epigram.models.settings import System

PACKAGE = "epigram.recipes"  # each module has a list RECIPES
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for module in module_names(PACKAGE) for recipe in import_module(f"{PACKAGE}.{module}").RECIPES
}


def recipe_of(name: str, system: System, train: Mapping[str, Any] | None = None) -> Recipe:
    """Return the recipe of a system of params.yaml with its changes; its own `train` overrides the run's `train`.

    Raises ParameterError with the nearest name for an unknown recipe, and for `encoder.backbone`, which only saved
    models have.
    """
    base = system.recipe or name
    if base not in RECIPES:
        where = f"systems.{name}.recipe" if system.recipe else f"systems.{name}"
        raise ParameterError(f"params.yaml: {where}: unknown system {base!r}: {nearest(base, list(RECIPES))}")
    if "backbone" in system.encoder:  # only in a saved model's config.json
        raise ParameterError(f"params.yaml: systems.{name}.encoder.backbone is not a setting; remove it")
    return RECIPES[base].changed(encoder=system.encoder, head=system.head, train={**(train or {}), **system.train})
