"""Tests of random samples: as many rows as asked for, in order, always the same, and not evenly spaced."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.core.sampling import choose_rows


@pytest.mark.parametrize(("count", "most", "expected"), [(0, 5, 0), (5, 5, 5), (5, 9, 5), (100, 40, 40)])
def test_at_most_so_many_different_rows_are_chosen_in_order(count: int, most: int, expected: int) -> None:
    rows = choose_rows(count, most)
    assert len(rows) == expected
    assert (np.diff(rows) > 0).all() and set(rows.tolist()) <= set(range(count))
    assert np.array_equal(choose_rows(count, most), rows)


def test_both_of_two_alternating_labels_are_chosen() -> None:
    assert (choose_rows(20_002, 10_001) % 2).mean() == pytest.approx(0.5, abs=0.02)
