"""Tests of the smallest significant difference, and of the number of rows that a difference needs."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.comparison.sensitivity import rows_needed, sensitivity, smallest_difference
from epigram.evaluation.comparison.significance import mcnemar
from epigram.evaluation.metrics.row_scores import RowScores

Z = 1.959964


@pytest.mark.parametrize(
    ("differing", "rows", "alpha", "expected"),
    [
        (0, 14, 0.05, 6),  # 2 · 0.5⁶ = 0.031; five rows give 0.0625
        (8, 14, 0.05, 8),  # 7 to 1 gives 0.070
        (9, 14, 0.05, 7),  # 8 to 1 gives 0.039
        (0, 14, 0.0625, 6),  # p must be below alpha
        (0, 14, 0.07, 5),
        (110, 1000, 0.05, 22),  # 66 to 44 gives 0.045, 65 to 45 gives 0.069
        (3, 5, 0.05, None),
    ],
)
def test_smallest_significant_difference(differing: int, rows: int, alpha: float, expected: int | None) -> None:
    assert smallest_difference(differing, rows, alpha) == expected


@pytest.mark.parametrize(
    ("only_a", "only_b", "rows", "expected"), [(3, 2, 14, 297), (5, 0, 14, 16), (60, 50, 1000, 4424)]
)
def test_a_difference_is_significant_with_the_rows_that_it_needs(
    only_a: int, only_b: int, rows: int, expected: int
) -> None:
    assert rows_needed(only_a, only_b, rows, Z) == expected
    with_fewer, with_more = (
        mcnemar(round(only_a * each / rows), round(only_b * each / rows)) for each in (0.85 * expected, 1.05 * expected)
    )
    assert with_more < 0.05 < with_fewer


def test_rows_of_several_values_are_compared_by_their_standard_error() -> None:
    """Half of 400 rows differ by 0.5: mean 0.25, standard deviation 0.25, standard error 0.0125."""
    gains = np.tile([1.0, 0.5], 200)[None]
    better, worse = RowScores(gains, np.ones((1, 400))), RowScores(np.full((1, 400), 0.5), np.ones((1, 400)))
    found = sensitivity(better, worse, 400, 0.05)
    assert found.difference == pytest.approx(0.0245, rel=0.05)
    assert found.rows == pytest.approx(400 * (0.0245 / 0.25) ** 2, abs=1)
    assert sensitivity(worse, better, 400, 0.05).rows is None
    assert sensitivity(worse, worse, 400, 0.05).difference is None
