"""Recipe and training settings of the systems of a params.yaml, for the slots and the order of their stages."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.errors import EpigramError, ParameterError
from epigram.models.settings import System
from epigram.runner.workspace.settings import Settings, load

if TYPE_CHECKING:
    from epigram.models.recipe import Recipe
    from epigram.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class PlannedSystem:
    """A system as it will be trained; `checkpoint` is its view's."""

    recipe: Recipe
    config: TrainingConfig
    checkpoint: str | None

    @classmethod
    def of(cls, name: str, system: System, train: Mapping[str, Any], checkpoint: str | None) -> PlannedSystem:
        """Return the system `name`; `train` is the run's section. Raises EpigramError for a wrong one."""
        from epigram.recipes.registry import recipe_of
        from epigram.training.config import configure

        recipe = recipe_of(name, system, train, checkpoint=checkpoint)
        config = configure(name, recipe, train)
        if system.teacher is not None:
            config = replace(config, processes=1)  # as the stage does
        return cls(recipe=recipe, config=config, checkpoint=checkpoint)

    def resolved(self, gpus: int | None = None, folds: int = 0) -> TrainingConfig:
        """Return `config` with the numbers of processes and threads, on a machine with so many `gpus` or this one.

        `folds` is the number of folds of train.
        """
        from epigram.training.distributed.resources import resolve_processes, resolve_threads

        config = self.config
        with suppress(ParameterError):  # the stage itself reports an impossible number of processes
            config = resolve_processes(config, self.recipe, folds=folds, gpus=gpus)
        return resolve_threads(config, self.recipe, self.checkpoint)


def read_systems(params: Path) -> dict[str, PlannedSystem]:
    """Return the systems of a params.yaml; empty if it is of a revision that this code cannot read."""
    try:
        return plan_systems(load(params))
    except EpigramError:
        return {}


def plan_systems(settings: Settings) -> dict[str, PlannedSystem]:
    """Return the systems of `settings`. Raises EpigramError for a wrong one."""
    return {
        name: PlannedSystem.of(name, system, settings.train, settings.views[system.view].checkpoint)
        for name, system in settings.systems.items()
    }
