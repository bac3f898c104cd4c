"""Limit of parallel stages: each stage takes as many slots as it has CPU threads, and the GPUs that it needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from epigram.core.errors import EpigramError
from epigram.core.files import read_json
from epigram.runner.dvc.graph import Graph
from epigram.runner.scheduling.gpus import GpuPool, gpus_by_stage
from epigram.runner.scheduling.planned_systems import PlannedSystem
from epigram.runner.scheduling.schedule import Schedule

HANDOVER = 5.0  # seconds at most from the moment at which a stage can start until its task waits here


class Slots:
    """Pool of `total` slots and of `gpus`, which go to the waiting stages in the order of `schedule`.

    A stage waits until all that it needs is free at once, so two large stages never block each other. `needed`
    maps each system that needs more than one slot to its number of slots; a stage `train@bert` belongs to the system
    `bert`.
    """

    def __init__(
        self,
        total: int,
        needed: Mapping[str, int] | None = None,
        schedule: Schedule | None = None,
        gpus: GpuPool | None = None,
    ) -> None:
        self.gpus = gpus or GpuPool()
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
    def acquire(self, stage: str) -> Iterator[dict[str, str]]:
        """Wait for the slots and the GPUs of `stage` and hold them while the context is open.

        Yields the environment variables that show it only its GPUs.
        """
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
            taken = self.gpus.take(stage)
            self._changed.notify_all()  # another stage may fit as well
        try:
            yield self.gpus.environment(taken)
        finally:
            with self._changed:
                self.free += count
                self.gpus.put_back(taken)
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
        return self.schedule.first(name for name in stages if self._fits(name))

    def _fits(self, stage: str) -> bool:
        return self.count(stage) <= self.free and self.gpus.fits(stage)


def set_needs(slots: Slots, stages: Graph, systems: Mapping[str, PlannedSystem], gpus: int, validated: Path) -> None:
    """Set what each stage needs of `slots`, on a machine with so many `gpus`.

    A training on folds has one process. The folds are those of the `validated` data; without such data, there are none.
    """
    folds = 0
    with suppress(EpigramError, LookupError, TypeError, ValueError):  # missing or damaged, which the stages report
        folds = int(read_json(validated / "corpus.json")["folds"])  # without Polars
    slots.gpus.needed = gpus_by_stage(stages, systems, gpus, folds)
    slots.needed = slots_by_system(systems, gpus, folds)


def slots_by_system(systems: Mapping[str, PlannedSystem], gpus: int = 0, folds: int = 0) -> dict[str, int]:
    """Return the slots (CPU threads of all processes) of each system, on a machine with so many `gpus`.

    `folds` are those of train.
    """
    return {name: _slots(system, gpus, folds) for name, system in systems.items() if system.recipe.has_encoder}


def _slots(system: PlannedSystem, gpus: int, folds: int) -> int:
    config = system.resolved(gpus, folds)
    return int(config.threads) * int(config.processes)
