"""Bootstrap percentile intervals: rows are resampled with replacement, and seeds are averaged within a resample.

Equal rows are drawn together: a resample of N rows is one multinomial draw over the U distinct rows. The distribution
is the same, and with few labels a resample needs a few counts instead of thousands of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, Ints, ratio
from epigram.evaluation.metrics.counts import LabelCounts
from epigram.evaluation.metrics.registry import macro_f1
from epigram.evaluation.metrics.scoring import RowScores, SplitPredictions
from epigram.evaluation.records.results import Interval

MAX_CODE = 2**62  # largest number of codes that two columns together may have


def distinct_rows(columns: Iterable[NDArray[Any]]) -> tuple[Ints, Ints]:
    """Return the first row of each distinct combination of values, and the number of its rows, (U,) each.

    The combinations of the `columns`, (N,) each, are in ascending order, as in `np.unique` with `axis=0`, which sorts
    whole rows. Here a row is one number, which is many times faster.
    """
    codes, size = np.zeros(1, np.int64), 1
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        if size * len(values) > MAX_CODE:
            known, codes = np.unique(codes, return_inverse=True)
            size = len(known)
        codes, size = codes * len(values) + places, size * len(values)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return first, counts


CHUNK = 4_000_000  # counts in memory at once: 32 MB
MANY_LABELS = 20  # if there are more, most pairs of gold and predicted label are rare
RARE = 4  # rows of which a distinct row has fewer are drawn one by one


def bootstrap(rows: NDArray[Any], statistic: Callable[[Floats], Floats], resamples: int, seed: int = 0) -> Floats:
    """Return `statistic` of `resamples` resamples of `rows` (N, F).

    `statistic` maps the column sums (r, F) of r resamples to (r, ...).
    """
    first, counts = distinct_rows(rows.T)
    return _bootstrap_distinct(rows[first].astype(float), counts, statistic, resamples, seed)


def _bootstrap_distinct(
    values: Any,
    counts: Ints,
    statistic: Callable[[Floats], Floats],
    resamples: int,
    seed: int = 0,
    *,
    mostly_rare: bool = False,
) -> Floats:
    """Return `statistic` of resamples of rows, of which the distinct `values` (U, F) occur `counts` (U,) times.

    `values` may be sparse. `mostly_rare`: most of the distinct rows occur only a few times.
    """
    generator, draw = np.random.default_rng(seed), draw_rare if mostly_rare else draw_counts
    step = max(1, CHUNK // len(counts))
    sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
    draws = (draw(counts, size, generator) for size in sizes)
    return np.concatenate([statistic(each.astype(float, copy=False) @ values) for each in draws])


def draw_counts(counts: Ints, size: int, generator: np.random.Generator) -> Ints:
    """Return how often each distinct row occurs in `size` resamples, (size, U), by multinomial draws."""
    rows = int(counts.sum())
    return generator.multinomial(rows, counts / rows, size=size)


def draw_rare(counts: Ints, size: int, generator: np.random.Generator) -> Floats:
    """Return what `draw_counts` returns, with the same distribution, faster if most distinct rows are rare.

    A number of a multinomial draw costs more than a few single rows. So the rare distinct rows are one number of it,
    and so many rows are drawn among them one by one.
    """
    rare = counts < RARE
    rows = np.repeat(np.flatnonzero(rare), counts[rare])
    drawn = draw_counts(np.append(counts[~rare], len(rows)), size, generator)
    out = np.zeros((size, len(counts)))
    out[:, ~rare] = drawn[:, :-1]
    for place, number in enumerate(drawn[:, -1].tolist()):
        chosen = rows[generator.integers(max(1, len(rows)), size=number, dtype=np.int32)]
        out[place] += np.bincount(chosen, minlength=len(counts))
    return out


def score_columns(row_scores: RowScores) -> NDArray[Any]:
    """Return columns (N, 2K); `seed_scores` turns their sums into every seed's score."""
    return np.concatenate([row_scores.gained, row_scores.possible]).T


def seed_scores(sums: Floats) -> Floats:
    """Return the scores (r, K) from column sums (r, 2K)."""
    gained, possible = np.split(sums, 2, axis=1)
    return ratio(gained, possible)


def score_interval(row_scores: RowScores, *, resamples: int, confidence: float) -> Interval:
    """Return the score averaged over the seeds, with its interval."""
    draws = bootstrap(score_columns(row_scores), lambda sums: seed_scores(sums).mean(1), resamples)
    return percentile(float(row_scores.scores().mean()), draws, confidence, row_scores.spread)


def macro_f1_interval(
    predictions: SplitPredictions, *, resamples: int, confidence: float, spread: float = 1.0
) -> Interval:
    """Return macro-F1 averaged over the seeds, with its interval."""
    seeds, multi = len(predictions.predicted), predictions.task == "multi"
    values, counts = predictions.distinct_rows()
    classes = values.shape[1] // (1 + 2 * seeds)

    def statistic(sums: Floats) -> Floats:
        support, rest = sums[:, None, :classes], sums[:, classes:].reshape(len(sums), 2, seeds, classes)
        predicted, hits = rest[:, 0], rest[:, 1]
        unknown = np.full(hits.shape[:-1], np.nan)  # sums over rows do not tell which rows are all right
        found = LabelCounts(hits, predicted, support, unknown, len(predictions.gold), multi)
        return np.asarray(macro_f1(found).mean(1))

    value = statistic(np.asarray(counts.astype(float) @ values)[None])
    rare = not multi and classes > MANY_LABELS
    draws = _bootstrap_distinct(values, counts, statistic, resamples, mostly_rare=rare)
    return percentile(float(value[0]), draws, confidence, spread)


def percentile(value: float, draws: Floats, confidence: float, spread: float = 1.0) -> Interval:
    """Return `value` with an interval that holds the middle `confidence` share of the draws (R,).

    With a `spread` above 1, both ends are so many times as far from `value`, within 0 and 1.
    """
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    if spread > 1.0:
        low, high = np.clip(value + spread * (np.array([low, high]) - value), 0.0, 1.0)
    return Interval(value=value, low=float(low), high=float(high))


def fold_spread(folds: Ints | None) -> float:
    """Return the spread of out-of-fold scores of rows with these folds (N,); 1 without folds.

    The models of K folds learn mostly the same rows, so their errors depend on each other: the variance is the rows'
    variance times 1 + K / (K − 1) (Nadeau and Bengio, Inference for the Generalization Error, 2003).
    """
    if folds is None:
        return 1.0
    count = len(np.unique(folds))
    return float(np.sqrt(1 + count / (count - 1)))
