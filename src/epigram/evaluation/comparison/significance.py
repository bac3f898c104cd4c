"""Significance tests for the difference between two systems.

One run each, by accuracy: McNemar's exact test on the rows that only one system gets right. Several seeds, or another
metric: a paired bootstrap that resamples rows and seeds. Many systems against the best: Holm's correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from epigram.evaluation.arrays import Floats
from epigram.evaluation.metrics.intervals import resampled_scores
from epigram.evaluation.metrics.row_scores import RowScores, ScoredRows

RESAMPLES = 5_000


@dataclass(frozen=True)
class Verdict:
    """Outcome of the first system against the second, with the p-value of the null hypothesis that they are equal."""

    outcome: Literal["better", "worse", "tie"]
    p: float


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p-value from the counts of rows that only system a or only system b gets right."""
    from scipy.special import bdtr

    n = only_a + only_b
    return min(1.0, 2 * float(bdtr(min(only_a, only_b), n, 0.5))) if n else 1.0


def paired_bootstrap(a: ScoredRows, b: ScoredRows, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the two-sided p-value of the difference in mean score."""
    draws = _differences(a, b, resamples, seed)
    rarer = min((draws <= 0).sum(), (draws >= 0).sum())
    return min(1.0, 2 * float(rarer + 1) / (len(draws) + 1))


def standard_error(a: ScoredRows, b: ScoredRows) -> float:
    """Return the standard error of the difference in mean score, by the paired bootstrap."""
    return float(_differences(a, b, RESAMPLES, 0).std())


def _differences(a: ScoredRows, b: ScoredRows, resamples: int, seed: int) -> Floats:
    """Return the difference in mean score for each resample of the paired rows and of each side's seeds."""
    generator = np.random.default_rng(seed + 1)

    def difference(scores: list[Floats]) -> Floats:
        one, other = (_resampled_mean(each, generator) for each in scores)
        return one - other

    return resampled_scores([a, b], difference, resamples, seed)


def _resampled_mean(scores: Floats, generator: np.random.Generator) -> Floats:
    """Return the mean over K seeds drawn with replacement, (r,), from `scores` (r, K)."""
    draws, runs = scores.shape
    weights = generator.multinomial(runs, np.full(runs, 1 / runs), size=draws)
    return np.asarray((scores * weights).sum(1) / runs)


def p_value(a: ScoredRows, b: ScoredRows) -> float:
    """Return the p-value of two systems on the same rows: McNemar's test where it applies, else the bootstrap."""
    counts = differing_rows(a, b)
    return paired_bootstrap(a, b) if counts is None else mcnemar(*counts)


def differing_rows(a: ScoredRows, b: ScoredRows) -> tuple[int, int] | None:
    """Return how many rows only system a and only system b gets right; None where McNemar's test does not apply."""
    if isinstance(a, RowScores) and isinstance(b, RowScores):
        one_run_each = len(a.gained) == len(b.gained) == 1
        if one_run_each and a.right_or_wrong and b.right_or_wrong:
            return int((a.gained > b.gained).sum()), int((a.gained < b.gained).sum())
    return None


def holm(p_values: Floats) -> Floats:
    """Return several p-values (M,) with Holm's step-down correction."""
    order = np.argsort(p_values)
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def verdict(a: ScoredRows, b: ScoredRows, alpha: float) -> Verdict:
    """Compare system a with system b."""
    return _verdict(a, b, p_value(a, b), alpha)


def verdicts(best: ScoredRows, others: Mapping[str, ScoredRows], alpha: float) -> dict[str, Verdict]:
    """Compare each of `others` with the best; the p-values are corrected for their number."""
    adjusted = holm(np.array([p_value(other, best) for other in others.values()], dtype=float))
    return {name: _verdict(others[name], best, float(p), alpha) for name, p in zip(others, adjusted, strict=True)}


def _verdict(a: ScoredRows, b: ScoredRows, p: float, alpha: float) -> Verdict:
    difference = float(a.scores().mean() - b.scores().mean())
    if p >= alpha or difference == 0:
        return Verdict("tie", p)
    return Verdict("better" if difference > 0 else "worse", p)
