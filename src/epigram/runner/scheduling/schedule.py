"""Order in which the stages of a run start: the one with the longest remaining path first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from epigram.runner.dvc.graph import Graph


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
