"""Rows of different lengths in one array, random samples, and limits of what is shown of many labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epigram.core.arrays import NpyWriter, Ragged, RaggedWriter, ranges, read_array
from epigram.core.limits import list_names, most_frequent
from epigram.core.sampling import choose_rows

ROWS = [[], [5, 6, 7], [], [8], []]


def ragged() -> Ragged[np.int32]:
    return Ragged.from_lists(ROWS, np.int32)


def listed(rows: Ragged[np.int32]) -> list[list[int]]:
    return [row.tolist() for row in rows]


def test_rows_come_back_with_their_type() -> None:
    rows = ragged()
    assert listed(rows) == ROWS
    assert (rows.values.dtype, rows.offsets.dtype) == (np.int32, np.int64)
    assert (len(rows), rows.lengths.tolist(), rows.starts.tolist()) == (5, [0, 3, 0, 1, 0], [0, 0, 3, 3, 4])
    assert listed(Ragged.from_lists([], np.int32)) == []


def test_each_value_knows_its_row_and_its_position() -> None:
    assert ragged().row_numbers().tolist() == [1, 1, 1, 3]
    assert ragged().positions().tolist() == [0, 1, 2, 0]
    assert ragged().spread(np.array([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]])).tolist() == [[2, 3]] * 3 + [[6, 7]]


@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, 4), slice(3, 99), slice(2, 2), slice(9, 12)])
def test_a_slice_has_offsets_of_its_own_and_shares_the_values(rows: slice) -> None:
    part, whole = ragged()[rows], ragged()
    assert listed(part) == ROWS[rows]
    assert part.offsets[0] == 0
    assert np.shares_memory(whole[rows].values, whole.values) or not part.values.size


def test_rows_are_selected_by_index_and_by_mask() -> None:
    assert listed(ragged()[np.array([3, 1, 0, 3])]) == [[8], [5, 6, 7], [], [8]]
    assert listed(ragged()[np.array([True, True, False, False, True])]) == [[], [5, 6, 7], []]
    assert listed(ragged()[np.zeros(0, np.int64)]) == []


def test_sums_count_by_row_also_for_several_columns() -> None:
    assert ragged().sums().tolist() == [0, 18, 0, 8, 0]
    columns = np.array([[1, 0], [1, 1], [0, 1], [1, 0]], dtype=bool)
    assert ragged().with_values(columns).sums().tolist() == [[0, 0], [2, 2], [0, 0], [1, 0], [0, 0]]


def test_rows_are_truncated_and_empty_rows_get_a_value() -> None:
    assert listed(ragged().truncate(2)) == [[], [5, 6], [], [8], []]
    assert listed(ragged().fill_empty(1)) == [[1], [5, 6, 7], [1], [8], [1]]
    pairs = ragged().with_values(np.arange(8).reshape(4, 2)).fill_empty(9)
    assert pairs.values.tolist() == [[9, 9], [0, 1], [2, 3], [4, 5], [9, 9], [6, 7], [9, 9]]


def test_parts_are_joined_and_ranges_begin_where_they_are_told() -> None:
    assert listed(Ragged.concatenate([ragged()[:2], ragged()[2:]])) == ROWS
    places = ranges(np.array([7, 0, 3]), np.array([2, 0, 3]))
    assert [row.tolist() for row in places] == [[7, 8], [], [3, 4, 5]]


def test_offsets_of_a_file_count_all_rows_that_are_written(tmp_path: Path) -> None:
    with NpyWriter(tmp_path / "v.npy", np.int32) as values, NpyWriter(tmp_path / "o.npy", np.int64) as offsets:
        writer = RaggedWriter(values, offsets)
        writer.append(ragged()[:2])
        writer.append(ragged()[2:])
    back = Ragged(read_array(tmp_path / "v.npy"), read_array(tmp_path / "o.npy"))
    assert listed(back) == ROWS


@pytest.mark.parametrize(("count", "most", "expected"), [(0, 5, 0), (5, 5, 5), (5, 9, 5), (100, 40, 40)])
def test_at_most_so_many_different_rows_are_chosen_in_order(count: int, most: int, expected: int) -> None:
    rows = choose_rows(count, most)
    assert len(rows) == expected
    assert (np.diff(rows) > 0).all() and set(rows.tolist()) <= set(range(count))
    assert np.array_equal(choose_rows(count, most), rows)


def test_both_of_two_alternating_labels_are_chosen() -> None:
    assert (choose_rows(20_002, 10_001) % 2).mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("counts", "limit", "places"),
    [
        ([5, 1, 6, 3], 2, [0, 2]),
        ([1, 6, 2, 5], 3, [1, 2, 3]),
        ([1, 2, 2, 2], 2, [1, 2]),  # of equal counts, the first
        ([0, 0, 7, 0], 2, [0, 2]),
        ([3, 1], 2, [0, 1]),
        ([3, 1], 5, [0, 1]),
        ([], 5, []),
    ],
)
def test_the_largest_counts_are_returned_in_their_order(counts: list[int], limit: int, places: list[int]) -> None:
    assert most_frequent(counts, limit) == places


def test_sixty_classes_are_shown() -> None:
    assert most_frequent([1] * 61) == list(range(60))
    assert most_frequent([1, *[2] * 60]) == list(range(1, 61))


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", 2, "c"], "a, 2, …"), (["", "b"], ", b")]
)
def test_a_list_of_names_ends_with_dots_if_there_are_more(names: list[object], text: str) -> None:
    assert list_names(names, 2) == text
