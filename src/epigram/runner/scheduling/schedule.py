"""Order in which the stages of a run start: the one with the longest remaining path first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from epigram.core.errors import EpigramError
from epigram.core.files import read_json
from epigram.runner.dvc.graph import Graph

MAX_RUNS = 20  # runs that are read, the latest ones
START = 2.0  # expected seconds of a stage that no run on the data set has executed


class Schedule:
    """Order of the stages of `graph`; `seconds` maps each stage to the seconds that it is expected to take.

    The remaining path of a stage is its own seconds and those of the slowest chain of stages that depend on it. Of
    equal stages, the first one in the graph comes first, so the order is the same in each run.
    """

    def __init__(self, graph: Graph, seconds: Mapping[str, float]) -> None:
        remaining = remaining_seconds(graph, seconds)
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


def remaining_seconds(graph: Graph, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return for each stage, in the order of the graph, the seconds of the longest path from its start to the end."""
    after = dict.fromkeys(graph.stages, 0.0)  # the longest path that begins at the end of the stage
    for stage in reversed(list(graph)):  # dependencies come first, so all that follows the stage is known
        for need in stage.needs & after.keys():
            after[need] = max(after[need], seconds[stage.name] + after[stage.name])
    return {name: seconds[name] + after[name] for name in after}


def expected_seconds(graph: Graph, runs: Path, dataset: str) -> dict[str, float]:
    """Return the seconds of each stage in the latest run on `dataset` that executed it; 0 if it is up to date.

    `runs` is the folder of the earlier runs. The order of the stages depends on the result, nothing else does.
    """
    files = [file for file in runs.glob("*/summary.json") if not file.parent.is_symlink()]
    measured: dict[str, float] = {}
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)[:MAX_RUNS]:
        with suppress(EpigramError, OSError, LookupError, TypeError, AttributeError):  # damaged, or edited by the user
            run = read_json(file)
            if run["dataset"] == dataset:
                executed = {name: stage for name, stage in run["stages"].items() if stage["state"] == "Completed"}
                measured = {name: float(stage["seconds"]) for name, stage in executed.items()} | measured
    return {name: 0.0 if name in graph.current else measured.get(name, START) for name in graph.stages}
