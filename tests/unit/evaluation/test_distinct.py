"""Tests of the distinct rows of a table."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.metrics import intervals
from epigram.evaluation.metrics.intervals import distinct_rows


@pytest.mark.parametrize("most", [2**62, 10])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_, np.float64])
def test_the_rows_are_those_of_numpy_in_the_same_order(kind: type, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With codes of at most 10, they are renumbered after every column."""
    monkeypatch.setattr(intervals, "MAX_CODE", most)
    table = np.random.default_rng(0).integers(0, 4, (500, 6)).astype(kind)
    first, counts = distinct_rows(table.T)
    wanted, expected = np.unique(table, axis=0, return_counts=True)
    np.testing.assert_array_equal(table[first], wanted)
    np.testing.assert_array_equal(counts, expected)


def test_no_number_of_columns_overflows() -> None:
    """Each of 70 columns doubles the codes: without renumbering, those above 2⁶³ would fall together."""
    table = np.random.default_rng(1).integers(0, 2, (40, 70))
    first, counts = distinct_rows(table.T)
    np.testing.assert_array_equal(table[first], np.unique(table, axis=0))
    assert counts.sum() == 40
