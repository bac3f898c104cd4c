"""Reader for parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import polars.selectors as cs

from epigram.core.errors import DataError, InputMissingError
from epigram.core.limits import LIMITS
from epigram.data.readers import register
from epigram.data.reading.columns import Columns, map_columns
from epigram.data.reading.decoding import translate_polars_errors

BATCH = 50_000  # rows
STRING_OVERHEAD = 16  # bytes that polars needs for a string in addition to its characters


@register("parquet")
@dataclass(frozen=True, kw_only=True)
class Parquet(Columns):
    """Reader for a parquet file."""

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield the needed columns in batches.

        Raises DataError for a corrupt file, a decompression bomb or a missing column, InputMissingError for a missing
        file.
        """
        if not path.is_file():
            raise InputMissingError(f"{path} is missing; run the download stage (dvc repro)")
        with translate_polars_errors(path):
            schema, rows = pl.scan_parquet(path, glob=False).collect_schema(), 0
            empty = pl.DataFrame(schema=schema)
            yield map_columns(empty, self, path, pl.Series(dtype=pl.Int64))  # reports a missing column
            selected = [name for name in schema if name in {*self.required(), *self.keep}]
            remaining = _remaining_bytes(path, len(selected))
            scan = pl.scan_parquet(path, glob=False).select(cs.by_name(selected))
            for table in scan.collect_batches(chunk_size=BATCH, maintain_order=True):
                lines = pl.int_range(rows + 1, rows + table.height + 1, eager=True)
                rows += table.height
                remaining -= sum(table.select(cs.string().str.len_bytes().sum()).row(0))
                _check_remaining(remaining, path)
                yield map_columns(table, self, path, lines)


def _remaining_bytes(path: Path, columns: int) -> int:
    """Return how many bytes the strings of the file may have, given its size; its footer has the number of rows."""
    rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    remaining: int = LIMITS.allowance(path.stat().st_size) - rows * columns * STRING_OVERHEAD
    _check_remaining(remaining, path)
    return remaining


def _check_remaining(remaining: int, path: Path) -> None:
    if remaining < 0:
        raise DataError(f"{path} unpacks to far more bytes than its size allows; possibly a decompression bomb")
