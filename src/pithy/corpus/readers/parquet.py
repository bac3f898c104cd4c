"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import polars.selectors as cs

from pithy.corpus.readers.columns import Columns, map_columns
from pithy.corpus.readers.decoding import readable
from pithy.errors import InputMissingError

BATCH = 50_000  # rows


@dataclass(frozen=True, kw_only=True)
class Parquet(Columns):
    """A parquet file."""


def read(path: Path, options: Parquet) -> Iterator[pl.DataFrame]:
    """Read the columns that are needed. Raises DataError for a broken file or a missing column."""
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: run the download stage (dvc repro)")
    with readable(path):
        there, rows = pl.read_parquet_schema(path), 0
        empty = pl.DataFrame(schema=there)
        yield map_columns(empty, options, path, pl.Series(dtype=pl.Int64))  # says which column is missing
        wanted = [name for name in there if name in {*options.needed(), *options.keep}]
        scan = pl.scan_parquet(path, glob=False).select(cs.by_name(wanted))
        for table in scan.collect_batches(chunk_size=BATCH, maintain_order=True):
            lines = pl.int_range(rows + 1, rows + table.height + 1, eager=True)
            rows += table.height
            yield map_columns(table, options, path, lines)
