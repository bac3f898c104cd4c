"""Paired differences between two tools: intervals by a bootstrap over test rows and samples."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000
POWER = 2.8  # standard errors: a difference of so many is found by 80% of the tests at the level of 5%
Right = NDArray[np.bool_]  # (S, N): whether a tool is right on each of N test rows after training on each of S samples
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Mean difference in points, its 95% interval, its p-value, and the difference that could have been detected."""

    mean: float
    low: float
    high: float
    p: float
    detectable: float

    @property
    def verdict(self) -> str:
        """The word ahead, behind or tie: a tie if the interval contains 0."""
        if self.low <= 0 <= self.high:
            return "tie"
        return "ahead" if self.low > 0 else "behind"


@dataclass(frozen=True)
class Draws:
    """Difference on one set in points, and that of each resample, (RESAMPLES,)."""

    mean: float
    resampled: Floats


@cache
def _row_weights(name: str, rows: int) -> NDArray[np.float32]:
    """Return how often each of N rows of a set is drawn, (N, RESAMPLES); the same for all tools."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    drawn = (np.bincount(generator.integers(rows, size=rows), minlength=rows) for _ in range(RESAMPLES))
    return np.stack([weights.astype(np.float32) for weights in drawn], axis=1)


def draws(name: str, one: Right, other: Right) -> Draws:
    """Return the difference of `one` less `other` on the set `name`; resamples rows, and samples of both tools."""
    gap = one.astype(np.float32) - other.astype(np.float32)
    samples, rows = gap.shape
    generator = np.random.default_rng(zlib.crc32(f"{name} samples".encode()))
    weights = generator.multinomial(samples, np.full(samples, 1 / samples), size=RESAMPLES)
    by_sample = gap @ _row_weights(name, rows)
    resampled = np.einsum("rs,sr->r", weights, by_sample.astype(np.float64)) / (samples * rows)
    return Draws(100 * float(gap.mean()), 100 * resampled)


def mean_draws(parts: Mapping[str, Draws]) -> Draws:
    """Return the mean over sets, which are drawn independently."""
    mean = float(np.mean([part.mean for part in parts.values()]))
    return Draws(mean, np.mean([part.resampled for part in parts.values()], axis=0))


def difference(drawn: Draws) -> Difference:
    """Return the interval, the two-sided p-value and the detectable difference of resamples."""
    low, high = np.quantile(drawn.resampled, [0.025, 0.975])
    rarer = min(int((drawn.resampled <= 0).sum()), int((drawn.resampled >= 0).sum()))
    p = min(1.0, 2 * (rarer + 1) / (RESAMPLES + 1))
    return Difference(drawn.mean, float(low), float(high), p, POWER * float(drawn.resampled.std()))


def corrected(gaps: Sequence[float], ratio: float) -> Difference:
    """Return the mean of the differences of J random splits of one data set, with a corrected resampled t-test.

    The splits share rows, so that the variance of the mean is not that of J independent ones, but 1/J + `ratio` times
    the variance of the differences (Nadeau and Bengio, 2003). `ratio` is that of test rows to training rows.
    """
    from scipy import stats

    degrees, mean = len(gaps) - 1, float(np.mean(gaps))
    error = float(np.std(gaps, ddof=1) * np.sqrt(1 / len(gaps) + ratio))
    half = float(stats.t.ppf(0.975, degrees)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, degrees)) if error else float(mean == 0)
    return Difference(mean, mean - half, mean + half, p, POWER * error)
