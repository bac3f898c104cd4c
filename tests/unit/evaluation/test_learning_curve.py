"""The learning curve: exact power laws, bounds, intervals, and what more labels are said to do."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.quality.learning_curve import LearningCurve, fit_power_law, learning_curve

SIZES = np.array([50.0, 100.0, 200.0, 400.0, 800.0])


def curve_of(errors: list[float], rows: int, count: int, seed: int = 0) -> LearningCurve:
    """Return the curve of `count` rows in five folds, each wrong at every size by a number of its own."""
    own = np.random.default_rng(seed).random((len(SIZES), count))
    return learning_curve(SIZES, own < np.array(errors)[:, None], np.arange(count) % 5, rows)


@pytest.mark.parametrize(
    ("floor", "scale", "exponent"), [(0.0, 1.0, 0.3), (0.1, 2.0, 0.5), (0.25, 5.0, 1.0), (0.05, 0.9, 0.1)]
)
def test_an_exact_power_law_is_found(floor: float, scale: float, exponent: float) -> None:
    law = fit_power_law(SIZES, floor + scale * SIZES**-exponent)
    assert law.exponent == pytest.approx(exponent, rel=0.01)
    assert law.floor == pytest.approx(floor, abs=0.005)
    assert law.scale == pytest.approx(scale, rel=0.02)
    for rows in (800, 1_600, 6_400):
        assert law.error(rows) == pytest.approx(floor + scale * rows**-exponent, abs=5e-4)


def test_every_resample_has_its_own_fit() -> None:
    errors = np.stack([0.1 + 2 * SIZES**-0.5, 3 * SIZES**-0.7])
    together = fit_power_law(SIZES, errors)
    for place, each in enumerate(errors):
        alone = fit_power_law(SIZES, each)
        assert together.exponent[place] == alone.exponent
        assert together.error(1_000)[place] == alone.error(1_000)


def test_an_error_that_rises_is_fitted_as_flat_and_one_that_falls_fast_does_not_go_below_zero() -> None:
    rising = fit_power_law(SIZES, np.array([0.2, 0.21, 0.22, 0.23, 0.24]))
    assert rising.scale == 0.0 and rising.error(10_000) == pytest.approx(359 / 1_550)  # weighted by size
    falling = fit_power_law(SIZES, np.array([0.5, 0.4, 0.3, 0.15, 0.0]))
    assert falling.floor == 0.0 and 0.0 <= falling.error(10_000) <= falling.error(800)


def test_the_accuracy_with_twice_the_rows_is_that_of_the_law() -> None:
    errors = 0.1 + 2 * SIZES**-0.5
    curve = curve_of(errors.tolist(), rows=1_000, count=200_000)
    assert curve.sizes == [50, 100, 200, 400, 800]
    assert curve.accuracy == pytest.approx(1 - errors, abs=0.005)
    assert curve.now == pytest.approx(0.9 - 2 * 1_000**-0.5, abs=0.005)
    assert curve.doubled.value == pytest.approx(0.9 - 2 * 2_000**-0.5, abs=0.005)
    assert curve.doubled.low < curve.doubled.value < curve.doubled.high < curve.doubled.low + 0.03
    assert curve.expected(2_000) == pytest.approx(curve.doubled.value)
    assert curve.expected(1_000) == pytest.approx(curve.now)
    assert curve.outlook == "helps"


def test_few_rows_have_a_wide_interval() -> None:
    errors = (0.1 + 2 * SIZES**-0.5).tolist()
    few, many = (curve_of(errors, rows=1_000, count=count).doubled for count in (300, 30_000))
    assert few.high - few.low > 3 * (many.high - many.low)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    errors, truth = (0.1 + 2 * SIZES**-0.5).tolist(), 0.9 - 2 * 2_000**-0.5
    intervals = [curve_of(errors, rows=1_000, count=500, seed=seed).doubled for seed in range(30)]
    assert sum(each.low <= truth <= each.high for each in intervals) >= 27


def test_folds_that_differ_widen_the_interval() -> None:
    """The rows of a fold are right or wrong together: five folds say less than 500 rows."""
    errors = 0.1 + 2 * SIZES**-0.5
    rows, folds = np.arange(500) / 500, np.arange(500) % 5
    mixed = learning_curve(SIZES, rows < errors[:, None], folds, 1_000).doubled
    apart = learning_curve(SIZES, rows < errors[:, None], np.arange(500) // 100, 1_000).doubled
    assert apart.high - apart.low > 2 * (mixed.high - mixed.low)
    assert apart.value == mixed.value


def test_the_interval_of_flat_folds_is_that_of_their_means() -> None:
    """The jackknife's error of a mean is that of the five means: their deviation divided by the root of 5."""
    shares = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    wrong = np.tile((np.arange(100) < 100 * shares[:, None]).ravel(), (len(SIZES), 1))
    found = learning_curve(SIZES, wrong, np.repeat(np.arange(5), 100), 1_000).doubled
    half = 2.7764 * shares.std(ddof=1) / np.sqrt(5)  # Student's t with four degrees of freedom
    assert (found.low, found.value, found.high) == pytest.approx((0.8 - half, 0.8, 0.8 + half), abs=1e-4)


def test_rows_that_agree_in_every_fold_still_have_an_error() -> None:
    errors, rows = 0.1 + 2 * SIZES**-0.5, np.repeat(np.arange(100) / 100, 5)
    found = learning_curve(SIZES, rows < errors[:, None], np.arange(500) % 5, 1_000).doubled
    assert found.high - found.low > 0.04  # that of 500 rows, although no fold differs from another


@pytest.mark.parametrize(
    ("errors", "count", "outlook"),
    [
        ([0.2] * 5, 20_000, "flat"),
        ([0.2, 0.201, 0.199, 0.2, 0.2], 20_000, "flat"),
        ([0.2] * 5, 400, "unclear"),
        ([0.4, 0.33, 0.28, 0.24, 0.21], 5_000, "helps"),
        ([0.38, 0.36, 0.34, 0.33, 0.32], 100, "unclear"),
    ],
)
def test_what_more_labels_do(errors: list[float], count: int, outlook: str) -> None:
    assert curve_of(errors, rows=1_000, count=count).outlook == outlook


def test_a_flat_curve_expects_no_gain() -> None:
    wrong = np.repeat(np.random.default_rng(0).random((1, 5_000)) < 0.2, 5, axis=0)
    curve = learning_curve(SIZES, wrong, np.arange(5_000) % 5, 1_000)
    assert curve.now == pytest.approx(curve.accuracy[-1], abs=1e-9)
    assert curve.doubled.value == pytest.approx(curve.now, abs=1e-9)
