"""Recipe and training settings of each system of a params.yaml, for the slots and the order of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.errors import EpigramError
from epigram.runner.workspace.settings import load

if TYPE_CHECKING:
    from epigram.models.recipe import Recipe
    from epigram.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class PlannedSystem:
    """A system or a student as it will be trained; `checkpoint` is that of its view."""

    recipe: Recipe
    config: TrainingConfig
    checkpoint: str | None


def read_systems(params: Path) -> dict[str, PlannedSystem]:
    """Return the systems and the students of a params.yaml; empty if it is of a revision that this code cannot read."""
    from epigram.models.registry import recipe_of
    from epigram.training.config import configure

    found = {}
    try:
        settings = load(params)
        for name, system in {**settings.systems, **settings.students}.items():
            checkpoint = settings.views[system.view].checkpoint
            recipe = recipe_of(name, system, settings.train, checkpoint=checkpoint)
            config = configure(name, recipe, settings.train)
            found[name] = PlannedSystem(recipe=recipe, config=config, checkpoint=checkpoint)
    except EpigramError:
        return {}
    return found
