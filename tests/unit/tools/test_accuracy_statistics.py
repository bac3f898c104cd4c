"""Intervals of the accuracy grid: known answers, and what is paired."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.accuracy_statistics import RESAMPLES, Draws, difference, draws, mean_draws


def half(samples: int, rows: int = 400) -> np.ndarray:
    """Return a tool that is right on random rows, the same after each sample."""
    right = np.random.default_rng(0).random(rows) < 0.5
    return np.tile(right, (samples, 1))


def test_where_every_row_differs_the_interval_is_the_difference() -> None:
    found = difference(draws("mr", np.ones((3, 50), bool), np.zeros((3, 50), bool)))
    assert (found.mean, found.low, found.high, found.verdict) == (100, 100, 100, "ahead")
    assert found.p == pytest.approx(2 / (RESAMPLES + 1))
    assert found.detectable == pytest.approx(0)
    behind = difference(draws("mr", np.zeros((3, 50), bool), np.ones((3, 50), bool)))
    assert (behind.mean, behind.high, behind.verdict) == (-100, -100, "behind")


def test_equal_tools_are_a_tie() -> None:
    found = difference(draws("mr", half(2), half(2)))
    assert (found.mean, found.low, found.high, found.p, found.verdict) == (0, 0, 0, 1, "tie")


def test_rows_are_paired() -> None:
    worse = half(1)
    worse[0, np.flatnonzero(worse[0])[:8]] = False
    found = difference(draws("mr", worse, half(1)))
    error = 100 * np.sqrt(0.02 * 0.98 / 400)  # 0.7 points; 3.5 if rows were not paired
    assert found.mean == pytest.approx(-2)
    assert (found.low, found.high) == pytest.approx((-2 - 1.96 * error, -2 + 1.96 * error), abs=0.3)
    assert found.detectable == pytest.approx(2.8 * error, rel=0.1)


def test_samples_are_paired_and_their_chance_counts() -> None:
    good = np.stack([np.ones(100, bool), np.zeros(100, bool)])  # right after sample 0 alone
    same = difference(draws("mr", good, good.copy()))
    assert (same.low, same.high) == (0, 0)
    other = difference(draws("mr", good, ~good))  # 100 points ahead after sample 0, and behind after sample 1
    assert (other.mean, other.low, other.high, other.verdict) == (0, -100, 100, "tie")


def test_the_mean_over_sets_draws_them_independently() -> None:
    worse = half(1)
    worse[0, np.flatnonzero(worse[0])[:8]] = False
    parts = {name: draws(name, worse, half(1)) for name in ("mr", "sst2", "ced", "cold")}
    one, mean = (float(part.resampled.std()) for part in (parts["mr"], mean_draws(parts)))
    assert mean_draws(parts).mean == pytest.approx(-2)
    assert mean == pytest.approx(one / 2, rel=0.1)  # √4; equal draws would give one


def test_an_interval_that_ends_at_zero_is_a_tie() -> None:
    resampled = np.concatenate([np.zeros(100), np.ones(1900)])
    assert difference(Draws(1.0, resampled)).verdict == "tie"
    assert difference(Draws(1.0, np.concatenate([np.zeros(40), np.ones(1960)]))).verdict == "ahead"
