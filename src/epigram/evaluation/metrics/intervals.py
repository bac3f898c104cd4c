"""Bootstrap percentile intervals: rows are resampled with replacement, and seeds are averaged within a resample.

Equal rows are drawn together: a resample of N rows is one multinomial draw over the U distinct rows. The distribution
is the same, and with few labels a resample needs a few counts instead of thousands of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, Ints
from epigram.evaluation.metrics.row_scores import SHARE, ScoredRows
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
RARE = 4  # rows of which a distinct row has fewer are drawn one by one


def bootstrap(rows: NDArray[Any], statistic: Callable[[Floats], Floats], resamples: int, seed: int = 0) -> Floats:
    """Return `statistic` of `resamples` resamples of `rows` (N, F).

    `statistic` maps the column sums (r, F) of r resamples to (r, ...).
    """
    first, counts = distinct_rows(rows.T)
    return _bootstrap_distinct(rows[first].astype(float), counts, statistic, resamples, seed)


def resampled_scores(
    systems: Sequence[ScoredRows], statistic: Callable[[list[Floats]], Floats], resamples: int, seed: int = 0
) -> Floats:
    """Return `statistic` of `resamples` resamples of the N rows, which are the same rows for all `systems`.

    There are fewer if `most_resamples` of a system says so. `statistic` maps the scores (r, K) of each system in r
    resamples to (r, ...).
    """
    first, counts = distinct_rows(chain.from_iterable(each.codes for each in systems))
    parts = [each.columns(first) for each in systems]
    borders = np.cumsum([part.shape[1] for part in parts])[:-1]

    def of_sums(sums: Floats) -> Floats:
        own = np.split(sums, borders, axis=1)
        return statistic([each.of(part) for each, part in zip(systems, own, strict=True)])

    rare = any(each.mostly_rare for each in systems)
    resamples = min([resamples, *(each.most_resamples for each in systems if each.most_resamples is not None)])
    return _bootstrap_distinct(_beside(parts), counts, of_sums, resamples, seed, mostly_rare=rare)


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


def _beside(parts: Sequence[Any]) -> Any:
    """Return the columns of all systems side by side; all are arrays, or all are sparse."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=1)
    from scipy.sparse import hstack

    return hstack(parts, format="csr")


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


def score_interval(rows: ScoredRows, *, resamples: int, confidence: float) -> Interval:
    """Return the score averaged over the seeds, with its interval."""
    draws = resampled_scores([rows], lambda scores: scores[0].mean(1), resamples)
    return percentile(float(rows.scores().mean()), draws, confidence, rows.spread, rows.bounds)


def percentile(
    value: float, draws: Floats, confidence: float, spread: float = 1.0, bounds: tuple[float, float] = SHARE
) -> Interval:
    """Return `value` with an interval that holds the middle `confidence` share of the draws (R,).

    With a `spread` above 1, both ends are so many times as far from `value`, within the `bounds`.
    """
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    if spread > 1.0:
        low, high = np.clip(value + spread * (np.array([low, high]) - value), *bounds)
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
