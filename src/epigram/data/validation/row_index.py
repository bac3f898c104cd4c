"""Rows of a corpus in batches, and an index of them for the rules across rows: 13 bytes per row.

Only rows whose text has the same hash as another row's are read again, and only their texts are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.data.sources.source import ROLES
from epigram.data.validation.label_checks import rows_by_label
from epigram.text.dataset.text_matching import LOOSE, loose_text
from epigram.text.dataset.validated_corpus import SPLITS

BATCH = 50_000
ROW_GROUP = 122_880  # rows per row group of the parquet files


class Rows:
    """Numbered rows of a corpus, read in batches.

    A row without a split counts as train; a missing text counts as an empty one.
    """

    def __init__(self, frame: pl.LazyFrame) -> None:
        self.schema = frame.collect_schema()
        self.count = int(frame.select(pl.len()).collect().item())
        self.unassigned = int(frame.select(pl.col("split").null_count()).collect().item())  # rows without a split
        text = [pl.col("text").fill_null("")] if self.schema.get("text") == pl.String else []
        self._frame = frame.with_columns(*text, pl.col("split").cast(pl.String).fill_null("train"))

    def derive(self, *columns: pl.Expr) -> None:
        """Add computed columns to every row."""
        self._frame = self._frame.with_columns(*columns)

    def batches(self) -> Iterator[pl.DataFrame]:
        """Yield all rows in order, in batches, with their number in the column `row`."""
        return (self.read(start, start + BATCH) for start in range(0, self.count, BATCH))

    def read(self, start: int, stop: int) -> pl.DataFrame:
        """Return the rows start, …, stop − 1."""
        rows = self._frame.slice(start, stop - start).collect()
        return rows.with_columns(row=pl.int_range(start, start + pl.len(), dtype=pl.Int64))

    def columns(self, *names: str) -> pl.DataFrame:
        """Return columns of all rows in memory."""
        return self._frame.select(names).collect()

    def select(self, mask: NDArray[np.bool_]) -> Iterator[pl.DataFrame]:
        """Yield the rows with `mask` (N,) true, in batches."""
        for start in range(0, self.count, BATCH):
            here = mask[start : start + BATCH]
            if here.any():  # select by index: a filter would keep the texts of all rows in memory
                yield self.read(start, start + BATCH)[np.flatnonzero(here)]

    def collect(self, mask: NDArray[np.bool_]) -> pl.DataFrame:
        """Return the rows with `mask` (N,) true, without the source's additional columns."""
        empty = self.read(0, 0)
        roles = [name for name in empty.columns if name in {*ROLES, "row"}]
        batches = (batch.select(roles) for batch in self.select(mask))
        return pl.concat([empty.select(roles), *map(copy_frame, batches)])


def copy_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Copy a frame, because filtered or sliced strings keep all the texts of the original frame in memory."""
    return pl.DataFrame(frame.to_dict(as_series=False), schema=frame.schema)


class Part:
    """Rows of one split, as later stages read them."""

    def __init__(self, rows: Rows, mask: NDArray[np.bool_], finish: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        self.height = int(mask.sum())
        self._rows, self._mask, self._finish = rows, mask, finish

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield the rows in batches."""
        return map(self._finish, self._rows.select(self._mask))

    def collect(self) -> pl.DataFrame:
        """Return all rows in memory."""
        rows: pl.DataFrame = pl.concat([self._empty(), *self])
        return rows

    def write(self, path: Path) -> None:
        """Write a parquet file, one batch at a time."""
        from polars.io.plugins import register_io_source

        def batches(*_: Any) -> Iterator[pl.DataFrame]:
            return iter(self)

        register_io_source(batches, schema=self._empty().schema).sink_parquet(path, row_group_size=ROW_GROUP)

    def _empty(self) -> pl.DataFrame:
        return self._finish(self._rows.read(0, 0))


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

    def list_counts(self, mask: NDArray[np.bool_]) -> dict[tuple[str, ...], int]:
        """Return the number of rows of each list of labels among the rows with `mask` (N,) true."""
        rows = np.zeros(len(self.lists), np.int64)
        for here in _slices(len(mask)):
            rows += np.bincount(self.codes[here][mask[here]], minlength=len(rows))
        return {labels: number for labels, number in zip(self.lists, rows.tolist(), strict=True) if number}

    def counts(self, mask: NDArray[np.bool_]) -> dict[str, int]:
        """Return the number of rows of each label among the rows with `mask` (N,) true."""
        return rows_by_label(self.list_counts(mask))

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
