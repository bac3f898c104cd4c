"""Limit of parallel stages: each stage takes as many slots as it has CPU threads, and the GPUs that it needs.

The stage with the longest remaining path starts first. The trials of a sweep share the GPUs in the same way; each trial
is a run in a process of its own, which does not know of the other trials.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path

from epigram.core.errors import EpigramError
from epigram.core.files import read_json
from epigram.runner.dvc.graph import Graph
from epigram.runner.scheduling.gpus import GpuPool, gpus_by_stage, stages_per_gpu, visible_gpus
from epigram.runner.scheduling.planned_systems import PlannedSystem, plan_systems
from epigram.runner.workspace.settings import Settings

HANDOVER = 5.0  # seconds at most from the moment at which a stage can start until its task waits here


class Schedule:
    """Order of the stages of `graph`: the stage with the longest chain of stages that depend on it comes first.

    Of equal stages, the first one in the graph comes first, so the order is the same in each run.
    """

    def __init__(self, graph: Graph) -> None:
        remaining = remaining_stages(graph)
        self.names = sorted(remaining, key=lambda name: -remaining[name])
        self._ranks = {name: rank for rank, name in enumerate(self.names)}
        self._needs = {stage.name: stage.needs for stage in graph}
        self._finished = set(graph.current)

    def first(self, names: Iterable[str]) -> str | None:
        """Return the stage that starts first, or None if there are no `names`; unknown stages start by name."""
        return min(names, key=lambda name: (self._ranks.get(name, 0), name), default=None)

    def ready(self) -> list[str]:
        """Return the stages that can start and have not ended."""
        return [name for name, needs in self._needs.items() if name not in self._finished and needs <= self._finished]

    def finish(self, name: str) -> list[str]:
        """Note that stage `name` has ended without an error; return the stages that can start since then."""
        self._finished.add(name)
        return [each for each in self.ready() if name in self._needs[each]]


def remaining_stages(graph: Graph) -> dict[str, int]:
    """Return for each stage, in the order of the graph, the stages to run on the longest path from it to the end."""
    remaining = {stage.name: int(stage.name not in graph.current) for stage in graph}
    own = dict(remaining)
    for stage in reversed(list(graph)):  # dependencies come first, so all that follows the stage is known
        for need in stage.needs & own.keys():
            remaining[need] = max(remaining[need], own[need] + remaining[stage.name])
    return remaining


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
        self.schedule = schedule or Schedule(Graph({}))
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
        return self.schedule.first(name for name in stages if self.count(name) <= self.free and self.gpus.fits(name))


def set_needs(slots: Slots, stages: Graph, systems: Mapping[str, PlannedSystem], gpus: int, validated: Path) -> None:
    """Set what each stage needs of `slots`, on a machine with so many `gpus`.

    A training on folds has one process. Missing `validated` data count as data without folds.
    """
    folds = 0
    with suppress(EpigramError, LookupError, TypeError, ValueError):  # missing or damaged, which the stages report
        folds = int(read_json(validated / "corpus.json")["folds"])  # without Polars
    slots.gpus.needed = gpus_by_stage(stages, systems, gpus, folds)
    slots.needed = slots_by_system(systems, gpus, folds)


def slots_by_system(systems: Mapping[str, PlannedSystem], gpus: int = 0, folds: int = 0) -> dict[str, int]:
    """Return the slots (CPU threads of all processes) of each system, on a machine with so many `gpus`.

    `folds` is the number of folds of train.
    """
    networks = {name: system.resolved(gpus, folds) for name, system in systems.items() if system.recipe.has_encoder}
    return {name: int(config.threads) * int(config.processes) for name, config in networks.items()}


# Prefect's threads have it from the thread of the flow; a Ray worker does not.
_trial_slots: ContextVar[Slots | None] = ContextVar("slots of the trials", default=None)


@contextmanager
def share_gpus(trials: Mapping[str, Settings], at_once: int) -> Iterator[None]:
    """During the context, share the GPUs of this machine between the named trials, of which `at_once` run in parallel.

    Nothing changes on a machine without a GPU, and for one trial at a time. Raises ParameterError for an invalid
    EPIGRAM_STAGES_PER_GPU.
    """
    names = visible_gpus()
    if not names or min(at_once, len(trials)) == 1:
        yield
        return
    needed = {name: needed_gpus(settings) for name, settings in trials.items()}
    token = _trial_slots.set(Slots(at_once, gpus=GpuPool(names, needed, stages_per_gpu())))
    try:
        yield
    finally:
        _trial_slots.reset(token)


def acquire_gpus(trial: str) -> AbstractContextManager[dict[str, str]]:
    """Wait for the GPUs of a trial and hold them while the context is open.

    Yields the environment variables that show it only these GPUs; none if the GPUs are not shared.
    """
    slots = _trial_slots.get()
    return nullcontext({}) if slots is None else slots.acquire(trial)


def needed_gpus(settings: Settings) -> int:
    """Return the number of GPUs of a run that starts one stage at a time.

    It is one, or `train.processes` of the system with the most; if no system has a network it is none.
    """
    try:
        systems = plan_systems(settings).values()
    except EpigramError:  # the run itself reports the error
        return 1
    processes = [system.config.processes for system in systems if system.recipe.has_encoder]
    return max((1 if count == "auto" else int(count) for count in processes), default=0)
