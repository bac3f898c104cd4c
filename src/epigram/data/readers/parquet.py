"""Reader for parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import polars.selectors as cs

from epigram.core.errors import DataError, InputMissingError
from epigram.core.limits import LIMITS
from epigram.data.readers.columns import Columns, map_columns
from epigram.data.readers.decoding import readable

BATCH = 50_000  # rows
CELL = 16  # bytes that polars needs for a string in addition to its characters


@dataclass(frozen=True, kw_only=True)
class Parquet(Columns):
    """Options for a parquet file."""


def read(path: Path, options: Parquet) -> Iterator[pl.DataFrame]:
    """Yield the needed columns in batches.

    Raises DataError for a corrupt file, a decompression bomb or a missing column, InputMissingError for a missing file.
    """
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: run the download stage (dvc repro)")
    with readable(path):
        there, rows = pl.scan_parquet(path, glob=False).collect_schema(), 0
        empty = pl.DataFrame(schema=there)
        yield map_columns(empty, options, path, pl.Series(dtype=pl.Int64))  # reports a missing column
        wanted = [name for name in there if name in {*options.needed(), *options.keep}]
        left = _memory_left(path, len(wanted))
        scan = pl.scan_parquet(path, glob=False).select(cs.by_name(wanted))
        for table in scan.collect_batches(chunk_size=BATCH, maintain_order=True):
            lines = pl.int_range(rows + 1, rows + table.height + 1, eager=True)
            rows += table.height
            left -= sum(table.select(cs.string().str.len_bytes().sum()).row(0))
            _check_left(left, path)
            yield map_columns(table, options, path, lines)


def _memory_left(path: Path, columns: int) -> int:
    """Return how many bytes the strings of the file may have, given its size; its footer has the number of rows."""
    rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    left: int = LIMITS.allowance(path.stat().st_size) - rows * columns * CELL
    _check_left(left, path)
    return left


def _check_left(left: int, path: Path) -> None:
    if left < 0:
        raise DataError(f"{path} unpacks to more than a file of its size may: it looks like a bomb")
