"""Record of pruning in `pruning.json`: what was done to each seed, and score, size and cost at each depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from epigram.core.files import write_json
from epigram.core.records import read_record

PRUNING = "pruning.json"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One depth of one seed, or, from `averaged`, the mean over the seeds.

    `classifier_score` is the development score of the base classifier on layer `depth`. Pruning decides by this score.
    """

    depth: int
    classifier_score: float
    parameters: float
    flops: float


@dataclass(frozen=True, kw_only=True)
class SeedPruning:
    """Pruning of one seed: what was done, and why."""

    seed: int
    layered: bool
    reason: str
    accepted: bool = False
    threshold: float | None = None
    score: str = ""  # name of the score of the layers' classifiers
    depth_full: int | None = None
    depth: int | None = None
    tradeoff: list[Point] = field(default_factory=list)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SeedPruning:
        """Return the record whose fields `asdict` returned as `values`."""
        return cls(**{**values, "tradeoff": [Point(**point) for point in values["tradeoff"]]})


@dataclass(frozen=True, kw_only=True)
class PruningRecord:
    """Pruning of all seeds of one system."""

    seeds: list[SeedPruning]

    @classmethod
    def read(cls, folder: Path) -> PruningRecord | None:
        """Read the record in `folder`; return None if the system was not pruned. Raises DataError if it is invalid."""
        return read_record(cls, folder / PRUNING) if (folder / PRUNING).exists() else None

    def write(self, folder: Path) -> None:
        """Write the record into `folder`, atomically."""
        write_json(folder / PRUNING, asdict(self))

    @property
    def threshold(self) -> float | None:
        """Threshold ξ if it is the same for every seed, else None; an automatic one differs between seeds."""
        values = {seed.threshold for seed in self.seeds}
        return values.pop() if len(values) == 1 else None

    @property
    def score(self) -> str:
        """Name of the score of the layers' classifiers; empty if no seed has any."""
        return next((seed.score for seed in self.seeds if seed.score), "")

    @property
    def kept_depths(self) -> list[int]:
        """Depths of the final models."""
        return sorted({seed.depth for seed in self.seeds if seed.depth is not None})

    @property
    def reasons(self) -> list[str]:
        """What was done, as sentences: one if all seeds agree, else one per seed."""
        if len({seed.reason for seed in self.seeds}) == 1:
            return [_sentence(self.seeds[0].reason)]
        return [_sentence(f"seed {seed.seed}: {seed.reason}") for seed in self.seeds]

    def averaged(self) -> list[Point]:
        """Return the mean of each depth over the seeds that reached it, deepest first."""
        points = [point for seed in self.seeds for point in seed.tradeoff]
        depths = sorted({point.depth for point in points}, reverse=True)
        return [_mean([point for point in points if point.depth == depth]) for depth in depths]


def _mean(points: Sequence[Point]) -> Point:
    return Point(
        depth=points[0].depth,
        classifier_score=mean(point.classifier_score for point in points),
        parameters=mean(point.parameters for point in points),
        flops=mean(point.flops for point in points),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
