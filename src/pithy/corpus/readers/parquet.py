"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pithy.corpus.readers.columns import ROW, Columns, map_columns
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
        there = pl.read_parquet_schema(path)
        yield map_columns(pl.DataFrame(schema={ROW: pl.UInt32, **there}), options, path)  # says which column is missing
        wanted = [name for name in there if name in {*options.needed(), *options.keep}]
        scan = pl.scan_parquet(path, glob=False).select(wanted).with_row_index(ROW, offset=1)
        for table in scan.collect_batches(chunk_size=BATCH, maintain_order=True):
            yield map_columns(table, options, path)
