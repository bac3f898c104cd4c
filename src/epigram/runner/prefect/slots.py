"""Limit of parallel stages: each stage takes as many slots as it has CPU threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from epigram.core.errors import EpigramError
from epigram.runner.workspace.settings import load


class Slots:
    """Pool of `total` slots.

    A stage waits until all slots that it needs are free at once, so two large stages never block each other. `needed`
    maps each system that needs more than one slot to its number of slots; a stage `train@bert` belongs to the system
    `bert`.
    """

    def __init__(self, total: int, needed: Mapping[str, int] | None = None) -> None:
        self.total, self.free, self.needed = total, total, needed or {}
        self._changed = threading.Condition()

    def count(self, stage: str) -> int:
        """Return the number of slots that `stage` takes: at least 1, at most `total`."""
        return min(self.total, self.needed.get(stage.partition("@")[2], 1))

    @contextmanager
    def acquire(self, stage: str) -> Iterator[None]:
        """Wait for the slots of `stage` and hold them while the context is open."""
        count = self.count(stage)
        with self._changed:
            self._changed.wait_for(lambda: self.free >= count)
            self.free -= count
        try:
            yield
        finally:
            with self._changed:
                self.free += count
                self._changed.notify_all()


def slots_by_system(params: Path) -> dict[str, int]:
    """Return the slots (CPU threads) of each system and student in a params.yaml, from its own settings or its recipe.

    The result is empty if this code cannot read the file, which may be of another revision; each stage then takes one
    slot.
    """
    from epigram.models.registry import recipe_of
    from epigram.training.config import configure
    from epigram.training.threads import resolve_threads

    try:
        settings = load(params)
        systems = {**settings.systems, **settings.students}
        checkpoints = {name: settings.views[system.view].checkpoint for name, system in systems.items()}
        recipes = {
            name: recipe_of(name, system, settings.train, checkpoint=checkpoints[name])
            for name, system in systems.items()
        }
        configs = {name: configure(name, recipe, settings.train) for name, recipe in recipes.items()}
    except EpigramError:
        return {}
    return {
        name: int(resolve_threads(config, recipes[name], checkpoints[name]).threads)
        for name, config in configs.items()
        if recipes[name].has_encoder
    }
