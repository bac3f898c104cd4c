"""Bootstrap percentile intervals: rows are resampled with replacement, and seeds are averaged within a resample.

Equal rows are drawn together: a resample of N rows is one multinomial draw over the U distinct rows. The distribution
is the same, and with few labels a resample needs a few counts instead of thousands of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, Ints, ratio
from epigram.evaluation.metrics import macro_f1, per_class
from epigram.evaluation.results import Interval
from epigram.evaluation.scoring import RowScores, SplitPredictions

CHUNK = 4_000_000  # counts in memory at once: 32 MB


def bootstrap(rows: NDArray[Any], statistic: Callable[[Floats], Floats], resamples: int, seed: int = 0) -> Floats:
    """Return `statistic` of `resamples` resamples of `rows` (N, F).

    `statistic` maps the column sums (r, F) of r resamples to (r, ...).
    """
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return _bootstrap_distinct(distinct.astype(float), counts, statistic, resamples, seed)


def _bootstrap_distinct(
    values: Any, counts: Ints, statistic: Callable[[Floats], Floats], resamples: int, seed: int = 0
) -> Floats:
    """Return `statistic` of resamples of rows, of which the distinct `values` (U, F) occur `counts` (U,) times.

    `values` may be sparse.
    """
    generator = np.random.default_rng(seed)
    step = max(1, CHUNK // len(counts))
    sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
    rows = int(counts.sum())
    draws = (generator.multinomial(rows, counts / rows, size=size) for size in sizes)
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
    seeds, _, classes = predictions.predicted.shape
    multi = predictions.task == "multi"
    values, counts = _distinct_labels(predictions) if multi else _distinct_classes(predictions)

    def statistic(sums: Floats) -> Floats:
        support, rest = sums[:, None, :classes], sums[:, classes:].reshape(len(sums), 2, seeds, classes)
        return np.asarray(macro_f1(per_class(rest[:, 1], rest[:, 0], support), multi=multi).mean(1))

    value = statistic(np.asarray(counts.astype(float) @ values)[None])
    draws = _bootstrap_distinct(values, counts, statistic, resamples)
    return percentile(float(value[0]), draws, confidence)


def _distinct_labels(predictions: SplitPredictions) -> tuple[Floats, Ints]:
    """Return the distinct rows of gold labels, predicted labels and hits (U, C + 2KC), and their counts (U,)."""
    gold, predicted = predictions.gold, predictions.predicted
    count = predicted.shape[1]
    hits = (predicted & gold).transpose(1, 0, 2).reshape(count, -1)
    columns = np.concatenate([gold, predicted.transpose(1, 0, 2).reshape(count, -1), hits], axis=1)
    distinct, counts = np.unique(columns, axis=0, return_counts=True)
    return distinct.astype(float), counts


def _distinct_classes(predictions: SplitPredictions) -> tuple[Any, Ints]:
    """Return what `_distinct_labels` returns for rows of one label, in the same order, as a sparse matrix.

    A row has at most 1 + 2K columns, so that the cost does not grow with the number of classes.
    """
    from scipy.sparse import csr_matrix

    seeds, _, classes = predictions.predicted.shape
    labels = np.stack([predictions.gold.argmax(-1), *predictions.predicted.argmax(-1)], axis=1)
    distinct, counts = np.unique(-labels, axis=0, return_counts=True)
    gold, predicted = -distinct[:, :1], -distinct[:, 1:]
    start = classes * (1 + np.arange(seeds))
    columns = np.concatenate([gold, start + predicted, start + classes * seeds + predicted], axis=1)
    hit = predicted == gold
    present = np.concatenate([np.ones_like(gold, np.bool_), np.ones_like(hit), hit], axis=1)
    rows = np.broadcast_to(np.arange(len(distinct))[:, None], columns.shape)
    shape = (len(distinct), classes * (1 + 2 * seeds))
    return csr_matrix((np.ones(present.sum()), (rows[present], columns[present])), shape=shape), counts


def percentile(value: float, draws: Floats, confidence: float) -> Interval:
    """Return `value` with an interval that holds the middle `confidence` share of the draws (R,)."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value=value, low=float(low), high=float(high))
