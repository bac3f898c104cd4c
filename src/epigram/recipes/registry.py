"""Registry of all systems by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from epigram.core.config_types import nearest
from epigram.core.errors import ParameterError
from epigram.core.registry import module_names
from epigram.models.recipe import MODELS, Preset, Recipe, parse_part
from epigram.models.settings import System

PACKAGE = "epigram.recipes"  # each module of a paper has a list RECIPES, and may have a dictionary PRESETS
OTHERS = {"registry", "listing"}
MODULES = [import_module(f"{PACKAGE}.{module}") for module in module_names(PACKAGE) if module not in OTHERS]
RECIPES: dict[str, Recipe] = {recipe.name: recipe for module in MODULES for recipe in module.RECIPES}
PRESETS: dict[str, Preset] = {
    name: preset for module in MODULES for name, preset in getattr(module, "PRESETS", {}).items()
}


def recipe_of(
    name: str, system: System, train: Mapping[str, Any] | None = None, *, checkpoint: str | None = None
) -> Recipe:
    """Return the recipe of a system of params.yaml with its changes.

    Training settings in ascending priority: the recipe's defaults from scratch, its defaults for a view with a
    `checkpoint`, the preset, the run's section `train`, and the system's own `train`. The system's own encoder and head
    settings override the preset's, which override the recipe's.

    Raises ParameterError with the nearest name for an unknown recipe or kind of model, for an encoder or a head of a
    model that has none, for `encoder.backbone`, which only saved models have, and for a preset that does not exist or
    lacks its checkpoint.
    """
    base = system.recipe or name
    if base not in RECIPES:
        where = f"systems.{name}.recipe" if system.recipe else f"systems.{name}"
        raise ParameterError(f"params.yaml: {where}: unknown system {base!r}: {nearest(base, list(RECIPES))}")
    if "backbone" in system.encoder:  # only in a saved model's config.json
        raise ParameterError(f"params.yaml: systems.{name}.encoder.backbone is not a setting; remove it")
    preset = _preset_of(name, base, system, checkpoint)
    recipe = RECIPES[base].changed(encoder=preset.encoder, head=preset.head)
    recipe = recipe.changed(model=system.model, encoder=system.encoder, head=system.head)
    recipe = recipe.starting_from(checkpoint).changed(train={**preset.train, **(train or {}), **system.train})
    parse_part(MODELS, recipe.model, f"systems.{name}.model")
    for part in ("encoder", "head"):
        if getattr(system, part) and not recipe.has_encoder:
            raise ParameterError(
                f"params.yaml: systems.{name}.{part}: {recipe.kind} has no {part}; remove this key, or put "
                f"settings of the model under systems.{name}.model"
            )
    return recipe


def _preset_of(name: str, base: str, system: System, checkpoint: str | None) -> Preset:
    """Return the system's preset, empty if it has none."""
    if system.preset is None:
        return Preset()
    where = f"params.yaml: systems.{name}.preset is {system.preset!r}"
    if base not in PRESETS:
        raise ParameterError(f"{where}, but the papers state no settings of {base}; remove it")
    preset = PRESETS[base]
    if preset.checkpoint and checkpoint is None:
        raise ParameterError(
            f"{where}: the paper fine-tunes a pretrained encoder; set views.{system.view}.checkpoint, or remove preset"
        )
    return preset
