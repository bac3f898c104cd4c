"""Bootstrap percentile intervals: rows are resampled with replacement, and seeds are averaged within a resample.

Equal rows are drawn together: a resample of N rows is one multinomial draw over the U distinct rows. The distribution
is the same, and with few labels a resample needs a few counts instead of thousands of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, ratio
from epigram.evaluation.metrics import macro_f1, per_class
from epigram.evaluation.results import Interval
from epigram.evaluation.scoring import RowScores, SplitPredictions

CHUNK = 4_000_000  # counts in memory at once: 32 MB


def bootstrap(rows: NDArray[Any], statistic: Callable[[Floats], Floats], resamples: int, seed: int = 0) -> Floats:
    """Return `statistic` of `resamples` resamples of `rows` (N, F).

    `statistic` maps the column sums (r, F) of r resamples to (r, ...).
    """
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    generator = np.random.default_rng(seed)
    values = distinct.astype(float)
    step = max(1, CHUNK // len(counts))
    sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
    draws = (generator.multinomial(len(rows), counts / len(rows), size=size) for size in sizes)
    return np.concatenate([statistic(draw.astype(float) @ values) for draw in draws])


def score_columns(row_scores: RowScores) -> Floats:
    """Return columns (N, 2K); `seed_scores` turns their sums into every seed's score."""
    return np.concatenate([row_scores.gained, row_scores.possible]).T


def seed_scores(sums: Floats) -> Floats:
    """Return the scores (r, K) from column sums (r, 2K)."""
    gained, possible = np.split(sums, 2, axis=1)
    return ratio(gained, possible)


def score_interval(row_scores: RowScores, *, resamples: int, confidence: float) -> Interval:
    """Return the score averaged over the seeds, with its interval."""
    draws = bootstrap(score_columns(row_scores), lambda sums: seed_scores(sums).mean(1), resamples)
    return percentile(float(row_scores.scores().mean()), draws, confidence)


def macro_f1_interval(predictions: SplitPredictions, *, resamples: int, confidence: float) -> Interval:
    """Return macro-F1 averaged over the seeds, with its interval."""
    gold, predicted, multi = predictions.gold, predictions.predicted, predictions.task == "multi"
    seeds, count, classes = predicted.shape
    hits = (predicted & gold).transpose(1, 0, 2).reshape(count, -1)
    columns = np.concatenate([gold, predicted.transpose(1, 0, 2).reshape(count, -1), hits], axis=1)

    def statistic(sums: Floats) -> Floats:
        support, rest = sums[:, None, :classes], sums[:, classes:].reshape(len(sums), 2, seeds, classes)
        return np.asarray(macro_f1(per_class(rest[:, 1], rest[:, 0], support), multi=multi).mean(1))

    value = statistic(columns.sum(0, dtype=float)[None])
    return percentile(float(value[0]), bootstrap(columns, statistic, resamples), confidence)


def percentile(value: float, draws: Floats, confidence: float) -> Interval:
    """Return `value` with an interval that holds the middle `confidence` share of the draws (R,)."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value=value, low=float(low), high=float(high))
