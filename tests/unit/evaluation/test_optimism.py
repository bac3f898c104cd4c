"""Tests of the optimism of the best of several scores; expected values are counted by hand over all resamples."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.comparison.optimism import expected_optimism
from epigram.evaluation.metrics.scoring import RowScores


def scores(*rows: list[int]) -> RowScores:
    """Return the scores of a system; one list of right (1) and wrong (0) rows for each seed."""
    gained = np.array(rows, float)
    return RowScores(gained, np.ones_like(gained))


def test_two_systems_that_are_right_on_one_row_each() -> None:
    """Of the 4 resamples of 2 rows, 2 repeat a row: the system right on it has 1 instead of 0.5."""
    found = expected_optimism([scores([1, 0]), scores([0, 1])], resamples=20_000)
    assert found == pytest.approx(0.25, abs=0.01)


def test_a_real_lead_is_no_optimism() -> None:
    """The first system is right on every row: it is best on every resample, with the score that it has on all rows."""
    assert expected_optimism([scores([1, 1, 1, 1]), scores([1, 0, 1, 0])]) == 0


def test_the_best_of_many_equal_systems_is_more_optimistic_than_that_of_two() -> None:
    generator = np.random.default_rng(0)
    systems = [scores(list(generator.integers(0, 2, 84))) for _ in range(40)]
    two, forty = expected_optimism(systems[:2]), expected_optimism(systems)
    assert 0 < two < 0.05 < forty < 0.15


def test_the_seeds_of_a_system_are_averaged() -> None:
    """Each system has one right seed and one wrong seed on every row: its mean is 0.5 on every resample."""
    assert expected_optimism([scores([1, 1], [0, 0]), scores([0, 0], [1, 1])]) == 0


def test_one_system_is_not_chosen_from_many() -> None:
    assert expected_optimism([scores([1, 0, 0])]) == 0


def test_a_system_that_is_chosen_whatever_its_score_has_no_optimism() -> None:
    """The second system is best on a resample that repeats its row; if it is replaced, the first one has 0 there."""
    systems = [scores([1, 0]), scores([0, 1])]
    assert expected_optimism(systems, 0, [1], resamples=20_000) == pytest.approx(0, abs=0.01)
    assert expected_optimism(systems, 0, [], resamples=20_000) == pytest.approx(0.25, abs=0.01)


def test_the_optimism_is_not_negative() -> None:
    assert min(expected_optimism([scores([1, 0, 0, 1, 0])] * 2, 0, [1], resamples=n) for n in range(1, 9)) == 0
