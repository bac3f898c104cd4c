"""Limit of parallel stages: each stage takes as many slots as it has CPU threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from epigram.runner.dvc.graph import Graph
from epigram.runner.prefect.planned_systems import PlannedSystem
from epigram.runner.prefect.schedule import Schedule

HANDOVER = 5.0  # seconds at most from the moment at which a stage can start until its task waits here


class Slots:
    """Pool of `total` slots, which go to the waiting stages in the order of `schedule`.

    A stage waits until all slots that it needs are free at once, so two large stages never block each other. `needed`
    maps each system that needs more than one slot to its number of slots; a stage `train@bert` belongs to the system
    `bert`.
    """

    def __init__(self, total: int, needed: Mapping[str, int] | None = None, schedule: Schedule | None = None) -> None:
        self.total, self.free, self.needed = total, total, needed or {}
        self.schedule = schedule or Schedule(Graph({}), {})
        self._changed = threading.Condition()
        self._waiting: set[str] = set()
        self._expected: dict[str, float] = {}  # monotonic time until which slots are kept for the stage
        self._unused = True

    def count(self, stage: str) -> int:
        """Return the number of slots that `stage` takes: at least 1, at most `total`."""
        return min(self.total, self.needed.get(stage.partition("@")[2], 1))

    @contextmanager
    def acquire(self, stage: str) -> Iterator[None]:
        """Wait for the slots of `stage` and hold them while the context is open."""
        count = self.count(stage)
        with self._changed:
            if self._unused:  # the tasks of all stages that can start at once come here in any order
                self._unused = False
                self._expect(self.schedule.ready())
            self._waiting.add(stage)
            self._expected.pop(stage, None)
            while self._next() != stage:
                self._changed.wait(HANDOVER / 10)
            self._waiting.remove(stage)
            self.free -= count
            self._changed.notify_all()  # another stage may fit as well
        try:
            yield
        finally:
            with self._changed:
                self.free += count
                self._changed.notify_all()

    def finish(self, stage: str) -> None:
        """Keep free slots for the stages that can start now that `stage`, which still holds its own, has succeeded."""
        with self._changed:
            self._expect(self.schedule.finish(stage))

    def _expect(self, stages: list[str]) -> None:
        self._expected |= dict.fromkeys(stages, time.monotonic() + HANDOVER)

    def _next(self) -> str | None:
        """Return the stage that takes the next free slots: the first one that fits, waiting or expected."""
        now = time.monotonic()
        stages = self._waiting.union(name for name, until in self._expected.items() if until > now)
        return self.schedule.first(name for name in stages if self.count(name) <= self.free)


def slots_by_system(systems: Mapping[str, PlannedSystem]) -> dict[str, int]:
    """Return the slots (CPU threads) of each system and student, from its own settings or its recipe."""
    from epigram.training.threads import resolve_threads

    return {
        name: int(resolve_threads(system.config, system.recipe, system.checkpoint).threads)
        for name, system in systems.items()
        if system.recipe.has_encoder
    }
