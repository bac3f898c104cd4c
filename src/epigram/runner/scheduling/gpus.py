"""GPUs of the machine, and their distribution over stages and trials."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError
from epigram.runner.dvc.graph import Graph
from epigram.runner.scheduling.planned_systems import PlannedSystem

VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA's variable with the GPUs of a process
SHARING = "EPIGRAM_STAGES_PER_GPU"
DEVICES = Path("/dev")
TIMEOUT = 20.0  # seconds
PROCESSES = "processes"  # `gpus` of a stage that has one for each process of a training


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs that stages may use, as CUDA_VISIBLE_DEVICES names them; empty on a machine without a GPU.

    If that variable is set, it lists them.
    """
    count = _count_gpus()
    allowed = os.environ.get(VISIBLE)
    if allowed is None or not count:
        return tuple(map(str, range(count)))
    names = (name.strip() for name in allowed.split(","))
    return tuple(takewhile(lambda name: name not in {"", "-1"}, names))  # CUDA ignores what follows an invalid name


def _count_gpus() -> int:
    """Return the number of GPUs by the driver's device files, or, without those, by its program nvidia-smi."""
    if found := [file for file in DEVICES.glob("nvidia*") if file.name.removeprefix("nvidia").isdecimal()]:
        return len(found)
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        listed = subprocess.run(
            [program, "-L"], capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def stages_per_gpu() -> int:
    """Return how many stages may run on one GPU. Raises ParameterError for anything but a positive number."""
    text = os.environ.get(SHARING, "1")
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ParameterError(f"invalid {SHARING}={shown(text)!r}: expected the number of stages that share a GPU")
    return int(text)


def gpus_by_stage(stages: Graph, systems: Mapping[str, PlannedSystem], gpus: int, folds: int = 0) -> dict[str, int]:
    """Return the number of GPUs of each stage that needs one, on a machine with so many `gpus`, by dvc.yaml.

    A stage of a system without a network needs none. `folds` is the number of folds of train.
    """
    from epigram.training.distributed.resources import resolve_processes

    needed = {}
    for stage in stages:
        system = systems.get(stage.name.partition("@")[2])
        if not gpus or stage.gpus is None or (system is not None and not system.recipe.has_encoder):
            continue
        count = 1
        if stage.gpus == PROCESSES and system is not None:
            try:
                count = int(resolve_processes(system.config, system.recipe, folds=folds, gpus=gpus).processes)
            except ParameterError:  # the stage itself reports the error
                count = 1
        needed[stage.name] = count
    return needed


class GpuPool:
    """GPUs with their `names`, each for at most `sharing` stages at once; `needed` maps a stage to its number of GPUs.

    Not thread-safe: `Slots` locks it.
    """

    def __init__(self, names: tuple[str, ...] = (), needed: Mapping[str, int] | None = None, sharing: int = 1) -> None:
        self.needed, self.sharing = needed or {}, sharing
        self.stages = dict.fromkeys(names, 0)  # number of running stages of each GPU

    def fits(self, stage: str) -> bool:
        """Return whether the GPUs that `stage` needs are free."""
        return self._count(stage) <= len(self._free())

    def take(self, stage: str) -> tuple[str, ...]:
        """Give `stage` its GPUs, least used first, and return their names."""
        taken = tuple(sorted(self._free(), key=self.stages.__getitem__)[: self._count(stage)])
        for name in taken:
            self.stages[name] += 1
        return taken

    def put_back(self, taken: tuple[str, ...]) -> None:
        """Take the GPUs of a stage that has ended."""
        for name in taken:
            self.stages[name] -= 1

    def environment(self, taken: tuple[str, ...]) -> dict[str, str]:
        """Return the variables of a stage with these GPUs; a stage without one sees none. Empty without any GPU."""
        return {VISIBLE: ",".join(taken)} if self.stages else {}

    def _count(self, stage: str) -> int:
        return min(len(self.stages), self.needed.get(stage, 0))

    def _free(self) -> list[str]:
        return [name for name, stages in self.stages.items() if stages < self.sharing]
