"""What pruning found: accuracy, size and cost at each depth (`pruning.json`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from pithy.evaluation.record import from_json


@dataclass(frozen=True, kw_only=True)
class Point:
    """One depth of one seed; means over the seeds after `averaged`.

    `classifier_score` is the development score of the base classifier on layer `depth`, by which pruning decides.
    """

    depth: int
    classifier_score: float
    parameters: float
    flops: float


@dataclass(frozen=True, kw_only=True)
class SeedPruning:
    """What was done to one seed, and why."""

    seed: int
    layered: bool
    reason: str
    accepted: bool = False
    threshold: float | None = None
    depth_full: int | None = None
    depth: int | None = None
    tradeoff: list[Point] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """All seeds of one system."""

    seeds: list[SeedPruning]

    @property
    def threshold(self) -> float | None:
        """The threshold ξ where every seed had the same; an automatic one differs between seeds."""
        values = {seed.threshold for seed in self.seeds}
        return values.pop() if len(values) == 1 else None

    @property
    def kept(self) -> list[int]:
        """The depths that the final models have."""
        return sorted({seed.depth for seed in self.seeds if seed.depth is not None})

    @property
    def reasons(self) -> list[str]:
        """What was done, as sentences: one where all seeds agree, else one a seed."""
        if len({seed.reason for seed in self.seeds}) == 1:
            return [_sentence(self.seeds[0].reason)]
        return [_sentence(f"seed {seed.seed}: {seed.reason}") for seed in self.seeds]

    def averaged(self) -> list[Point]:
        """Mean over the seeds that reached a depth, deepest first."""
        points = [point for seed in self.seeds for point in seed.tradeoff]
        depths = sorted({point.depth for point in points}, reverse=True)
        return [_mean([point for point in points if point.depth == depth]) for depth in depths]


def read_pruning(path: Path) -> Pruning | None:
    """Read `pruning.json`; None where the system was not pruned. Raises DataError for a file of another form."""
    return from_json(Pruning, path) if path.exists() else None


def _mean(points: Sequence[Point]) -> Point:
    return Point(
        depth=points[0].depth,
        classifier_score=mean(point.classifier_score for point in points),
        parameters=mean(point.parameters for point in points),
        flops=mean(point.flops for point in points),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
