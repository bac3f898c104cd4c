"""Rows of different lengths in one array: empty rows, slices, selections and sums, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epigram.core.arrays import NpyWriter, Ragged, RaggedWriter, ranges, read_array

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
