"""Index of a corpus for the rules across rows: 13 bytes per row, regardless of the length of its text.

Only rows whose text has the same hash as another row's are read again, and only their texts are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.data.validation.row_batches import Rows
from epigram.text.dataset.text_matching import LOOSE, loose_text
from epigram.text.dataset.validated_corpus import SPLITS

TRAIN, DEV, TEST = range(3)  # positions in SPLITS
NO_SPLIT = 3  # code of a row in no split
ROWS_PER_STEP = 1 << 20  # rows processed at once

SplitCodes = NDArray[np.uint8]  # (N,), the code of each row's split


class LabelCodes:
    """Integer code of each row's label or list of labels, numbered in the order of first appearance."""

    def __init__(self, rows: int) -> None:
        self.codes = np.zeros(rows, np.int32)  # (N,)
        self.lists: list[tuple[str, ...]] = []  # labels of each code
        self._known: dict[tuple[str, ...], int] = {}

    def add(self, start: int, column: pl.Series) -> None:
        """Set the codes of the rows from `start` on."""
        groups = pl.DataFrame({"value": column}).with_row_index().group_by("value", maintain_order=True).agg("index")
        codes = pl.Series([self._code(value) for value in groups["value"].to_list()], dtype=pl.Int32)
        ordered = groups.select("index", code=codes).explode("index").sort("index")["code"]
        self.codes[start : start + len(column)] = ordered.to_numpy()

    def _code(self, value: str | Sequence[str | None] | None) -> int:
        labels = (value,) if isinstance(value, str) else tuple(label for label in value or () if label is not None)
        if labels not in self._known:
            self._known[labels] = len(self.lists)
            self.lists.append(labels)
        return self._known[labels]

    def counts(self, mask: NDArray[np.bool_]) -> dict[str, int]:
        """Return the number of rows of each label among the rows with `mask` (N,) true."""
        rows = np.zeros(len(self.lists), np.int64)
        for here in _slices(len(mask)):
            rows += np.bincount(self.codes[here][mask[here]], minlength=len(rows))
        found: dict[str, int] = {}
        for labels, number in zip(self.lists, rows.tolist(), strict=True):
            for label in labels if number else ():
                found[label] = found.get(label, 0) + number
        return found

    def first(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the position in `rows` of the first row of each code, or len(rows) if there is none."""
        first = np.full(len(self.lists), len(rows), np.int64)
        for here in reversed(list(_slices(len(rows)))):
            codes = self.codes[rows[here]]
            first[codes[::-1]] = np.arange(here.start, here.start + len(codes))[::-1]  # the last assignment wins
        return first


@dataclass(frozen=True)
class RowIndex:
    """Rows of a corpus without their texts."""

    split: SplitCodes  # as read
    labels: LabelCodes
    token_labels: LabelCodes | None  # None if tokens have no labels
    repeated: pl.DataFrame  # rows whose loose text has the hash of another row's, with `#loose`


def find_repeated(rows: Rows, hashes: NDArray[np.uint64]) -> pl.DataFrame:
    """Return the rows whose hash occurs more than once, with the column `#loose`."""
    ordered = np.sort(hashes)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    mask = np.zeros(len(hashes), np.bool_)
    if len(shared):
        for here in _slices(len(hashes)):
            position = np.searchsorted(shared, hashes[here])
            mask[here] = shared[np.minimum(position, len(shared) - 1)] == hashes[here]
    return rows.collect(mask).with_columns(loose_text().alias(LOOSE))


def split_codes(column: pl.Series) -> SplitCodes:
    """Return the position of each name in SPLITS, or NO_SPLIT for any other name."""
    return column.replace_strict(SPLITS, range(len(SPLITS)), default=NO_SPLIT, return_dtype=pl.UInt8).to_numpy()


def split_names(split: SplitCodes) -> pl.Series:
    """Return the split name of each code, null for NO_SPLIT."""
    return pl.Series("split", split).replace_strict(range(len(SPLITS)), SPLITS, default=None, return_dtype=pl.String)


def _slices(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + ROWS_PER_STEP, rows)) for start in range(0, rows, ROWS_PER_STEP))
