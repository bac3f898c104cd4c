"""Rows of a corpus and of its splits, read in batches so that memory use does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.data.sources.source import ROLES

BATCH = 50_000
ROW_GROUP = 122_880  # of the parquet files


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
