"""Rows of the results: our value, the peers' values, and whether the target is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

LOWER_IS_BETTER = {"s", "ms", "GB", "MB", "% of tokens", "% of wall time"}  # units; for all others higher is better


@dataclass(frozen=True)
class Measured:
    """One quantity over all runs."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the runs."""
        return median(self.runs)

    @property
    def range(self) -> list[float]:
        """Smallest and largest run."""
        return [short(min(self.runs)), short(max(self.runs))]


@dataclass(frozen=True)
class Reach:
    """Target of a row: a bound on our value, or on its ratio to the best peer."""

    sign: Literal["≤", "≥"]
    bound: float
    of: Literal["ours", "ratio"] = "ours"

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}{' ×' if self.of == 'ratio' else ''}"


@dataclass(frozen=True)
class Row:
    """Row of the results.

    `ratio` is our value over the best peer's; the unit determines whether higher or lower is better. `peers` maps name
    and settings to each peer that does the same work. `limit` is our share of what the machine can do. `accuracy` names
    the comparison of `benchmarks.equal_epochs` that belongs to the rate.
    """

    work: str
    unit: str
    ours: Measured
    peers: Mapping[str, Measured] = field(default_factory=dict)
    reach: Reach | None = None
    limit: float | None = None
    accuracy: str | None = None

    @property
    def ranked(self) -> list[str]:
        """Names of the peers, best first."""
        return sorted(self.peers, key=lambda name: self.peers[name].median, reverse=self.unit not in LOWER_IS_BETTER)

    @property
    def ratio(self) -> float | None:
        """Our median divided by the best peer's; None without peers."""
        return self._ratio_to(self.ranked[0]) if self.peers else None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None if the row has no target, or no peer for the ratio."""
        value = self.ours.median if self.reach is None or self.reach.of == "ours" else self.ratio
        if self.reach is None or value is None:
            return None
        return value <= self.reach.bound if self.reach.sign == "≤" else value >= self.reach.bound

    def record(self) -> dict[str, Any]:
        """Return the row as JSON: medians, ranges, and the peers, best first."""
        return {
            "work": self.work,
            "unit": self.unit,
            "better": "lower" if self.unit in LOWER_IS_BETTER else "higher",
            "ours": short(self.ours.median),
            "ours_range": self.ours.range,
            "runs": len(self.ours.runs),
            "peers": [self._peer(name) for name in self.ranked],
            "ratio": short(self.ratio) if self.ratio is not None else None,
            "reach": str(self.reach) if self.reach else None,
            "reached": self.reached,
            "limit": short(self.limit) if self.limit is not None else None,
            "accuracy": self.accuracy,
        }

    def _ratio_to(self, name: str) -> float | None:
        peer = self.peers[name].median
        return self.ours.median / peer if peer else None

    def _peer(self, name: str) -> dict[str, Any]:
        peer, ratio = self.peers[name], self._ratio_to(name)
        return {
            "name": name,
            "value": short(peer.median),
            "range": peer.range,
            "ratio": short(ratio) if ratio is not None else None,
        }


def short(value: float) -> float:
    """Return `value` with four significant digits."""
    return float(f"{value:.4g}")
