"""Every system of a run, checked before anything runs."""

from __future__ import annotations

from pithy.settings import Settings
from pithy.systems.recipe import ENCODERS, HEADS, part
from pithy.systems.registry import recipe_of
from pithy.training.config import configure


def check(settings: Settings) -> None:
    """Raise ParameterError for a system that does not exist or a setting that its parts do not know."""
    for name, system in settings.systems.items():
        recipe = recipe_of(name, system, settings.train)
        configure(name, recipe, settings.train)
        part(ENCODERS, recipe.encoder, f"systems.{name}.encoder")
        part(HEADS, recipe.head, f"systems.{name}.head")
