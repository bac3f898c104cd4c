"""GPUs of the trials of a sweep. Each trial is a run in a process of its own, which does not know of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from epigram.core.errors import EpigramError
from epigram.runner.scheduling.gpus import GpuPool, stages_per_gpu, visible_gpus
from epigram.runner.scheduling.planned_systems import plan_systems
from epigram.runner.scheduling.slots import Slots
from epigram.runner.workspace.settings import Settings

# Prefect's threads have it from the thread of the flow; a Ray worker does not.
_slots: ContextVar[Slots | None] = ContextVar("slots of the trials", default=None)


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
    token = _slots.set(Slots(at_once, gpus=GpuPool(names, needed, stages_per_gpu())))
    try:
        yield
    finally:
        _slots.reset(token)


def acquire_gpus(trial: str) -> AbstractContextManager[dict[str, str]]:
    """Wait for the GPUs of a trial and hold them while the context is open.

    Yields the environment variables that show it only these GPUs; none if the GPUs are not shared.
    """
    slots = _slots.get()
    return nullcontext({}) if slots is None else slots.acquire(trial)


def needed_gpus(settings: Settings) -> int:
    """Return the number of GPUs of a run that starts one stage at a time.

    It is one, or `train.processes` of the system with the most; if no system has a network it is none.
    """
    try:
        systems = plan_systems(settings).values()
    except EpigramError:  # which the run itself reports
        return 1
    processes = [system.config.processes for system in systems if system.recipe.has_encoder]
    return max((1 if count == "auto" else int(count) for count in processes), default=0)
