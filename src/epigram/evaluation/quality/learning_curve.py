"""Learning curve: the error of a classifier as a power law of the number of training rows, and what more rows would do.

error(n) = a + b n^−c with a, b ≥ 0 (Cortes et al., Learning Curves: Asymptotic Values and Rate of Convergence, 1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Bools, Floats, Ints, ratio
from epigram.evaluation.metrics.intervals import bootstrap, percentile
from epigram.evaluation.records.results import Interval

EXPONENTS = np.geomspace(0.05, 2.0, 100)  # bounds of c, and the grid of the first search
STEPS = np.geomspace(1 / 1.04, 1.04, 33)  # grid of the second search around the best exponent of the first
RESAMPLES = 1_000
MIN_SIZES = 4  # a law of three numbers fits any three sizes
SMALL_GAIN = 0.02  # minimum gain of accuracy that is worth twice the labels

Outlook = Literal["helps", "unclear", "flat"]


@dataclass(frozen=True)
class PowerLaw:
    """Errors a + b n^−c; `floor` is a, `scale` is b, `exponent` is c, each (...) of one fit or of many."""

    floor: NDArray[Any]
    scale: NDArray[Any]
    exponent: NDArray[Any]

    def error(self, rows: float) -> NDArray[Any]:
        """Return the error of a training on `rows` rows, (...)."""
        return np.asarray(self.floor + self.scale * rows**-self.exponent)


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """Accuracy at each size of the training set, the fitted law, and what to expect with twice the rows.

    `outlook` says whether twice the rows are expected to raise the accuracy: `flat` if the interval ends less than
    SMALL_GAIN above the accuracy of today, `helps` if the law falls beyond its error.
    """

    sizes: list[int]
    accuracy: list[float]
    floor: float
    scale: float
    exponent: float
    rows: int  # training rows of the corpus
    now: float  # fitted accuracy of a training on all of them
    doubled: Interval  # accuracy with twice the rows
    gain: Interval  # difference of this accuracy to `now`
    outlook: Outlook

    def expected(self, rows: float) -> float:
        """Return the fitted accuracy of a training on `rows` rows."""
        return float(1.0 - self.floor - self.scale * rows**-self.exponent)


def learning_curve(sizes: Floats, wrong: Bools, folds: Ints, rows: int) -> LearningCurve:
    """Return the curve of trainings on `sizes` (S,) rows, where `wrong` (S, N) marks the rows predicted wrongly.

    `folds` (N,) is the fold of each row. The 95% interval is the union of two: from a bootstrap over the rows, which
    are the same at every size, and from a jackknife over the folds, whose training rows differ.
    """
    law = fit_power_law(sizes, wrong.mean(1))
    now, doubled = _now_and_doubled(law, rows).tolist()
    drawn, left_out = _bootstrapped(sizes, wrong, rows), _jackknifed(sizes, wrong, folds, rows)
    interval = _union(doubled, drawn[:, 1], left_out[:, 1])
    gain = _union(doubled - now, drawn[:, 1] - drawn[:, 0], left_out[:, 1] - left_out[:, 0])
    return LearningCurve(
        sizes=np.rint(sizes).astype(int).tolist(),
        accuracy=(1.0 - wrong.mean(1)).tolist(),
        floor=float(law.floor),
        scale=float(law.scale),
        exponent=float(law.exponent),
        rows=rows,
        now=now,
        doubled=interval,
        gain=gain,
        outlook="flat" if interval.high < now + SMALL_GAIN else "helps" if gain.low > 0 else "unclear",
    )


def fit_power_law(sizes: Floats, errors: Floats) -> PowerLaw:
    """Return the least-squares fits to `errors` (..., S) at `sizes` (S,), with a, b ≥ 0 and c in EXPONENTS.

    Larger sizes have larger weights, because the law does not hold for the smallest. For a given c it is linear in a
    and b, so c is found by a search over two grids.
    """
    unit = sizes / sizes.max()
    first = _best_on_grid(unit, errors, np.broadcast_to(EXPONENTS, (*errors.shape[:-1], len(EXPONENTS))))
    near = np.clip(first.exponent[..., None] * STEPS, EXPONENTS[0], EXPONENTS[-1])
    fitted = _best_on_grid(unit, errors, near)
    return PowerLaw(fitted.floor, fitted.scale * sizes.max() ** fitted.exponent, fitted.exponent)


def _best_on_grid(sizes: Floats, errors: Floats, exponents: Floats) -> PowerLaw:
    """Return for `errors` (..., S) the best of the fits with `exponents` (..., G)."""
    x, y = sizes ** -exponents[..., None], errors[..., None, :]  # (..., G, S)
    weights = sizes / sizes.sum()
    mean_x, mean_y = x @ weights, y @ weights
    centred = x - mean_x[..., None]
    scale = np.maximum(ratio((centred * y) @ weights, (centred * centred) @ weights), 0.0)
    floor = mean_y - scale * mean_x
    negative = floor < 0
    scale = np.where(negative, ratio((x * y) @ weights, (x * x) @ weights), scale)
    floor = np.where(negative, 0.0, floor)
    loss = (floor[..., None] + scale[..., None] * x - y) ** 2 @ weights
    best = loss.argmin(-1)[..., None]
    return PowerLaw(*(np.take_along_axis(each, best, -1)[..., 0] for each in (floor, scale, exponents)))


def _now_and_doubled(law: PowerLaw, rows: int) -> Floats:
    """Return the fitted accuracies (..., 2) at `rows` and at twice as many."""
    return np.stack([1.0 - law.error(rows), 1.0 - law.error(2 * rows)], axis=-1)


def _bootstrapped(sizes: Floats, wrong: Bools, rows: int) -> Floats:
    """Return the fitted accuracies (R, 2) of resamples of the rows."""

    def statistic(sums: Floats) -> Floats:
        return _now_and_doubled(fit_power_law(sizes, sums / wrong.shape[1]), rows)

    return bootstrap(wrong.T, statistic, RESAMPLES)


def _jackknifed(sizes: Floats, wrong: Bools, folds: Ints, rows: int) -> Floats:
    """Return the fitted accuracies (K, 2) without each of the K folds."""
    errors = np.stack([wrong[:, folds != fold].mean(1) for fold in range(int(folds.max()) + 1)])
    return _now_and_doubled(fit_power_law(sizes, errors), rows)


def _union(value: float, drawn: Floats, left_out: Floats) -> Interval:
    """Return `value` with the union of the 95% intervals of a bootstrap (R,) and a jackknife (K,) (Tukey, 1958)."""
    from scipy.stats import t

    count, interval = len(left_out), percentile(value, drawn, 0.95)
    error = np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())
    half = float(t.ppf(0.975, count - 1) * error)
    return Interval(value=value, low=min(interval.low, value - half), high=max(interval.high, value + half))
