"""Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pithy.corpus.readers.columns import ROW, Columns, map_columns
from pithy.corpus.readers.decoding import readable
from pithy.errors import InputMissingError


@dataclass(frozen=True, kw_only=True)
class Parquet(Columns):
    """A parquet file."""


def read(path: Path, options: Parquet) -> pl.DataFrame:
    """Read the columns that are needed. Raises DataError for a broken file or a missing column."""
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: run the download stage (dvc repro)")
    with readable(path):
        there = pl.read_parquet_schema(path)
        wanted = [name for name in there if name in {*options.needed(), *options.keep}]
        table = pl.read_parquet(path, columns=wanted, glob=False).with_row_index(ROW, offset=1)
        if len(wanted) < len(set(options.needed())):
            table = pl.DataFrame(schema={ROW: pl.UInt32, **there})  # for the message, which names every column
    return map_columns(table, options, path)
