"""Writing of tables (csv, tsv, jsonl, parquet) in chunks."""

from __future__ import annotations

import json
import os
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import polars as pl

from epigram.core.errors import ParameterError
from epigram.core.files import atomic_file
from epigram.data.readers.jsonl import append_keys, expand
from epigram.data.tables import RAW

STDOUT = Path("-")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".jsonl", ".parquet")
BINARY = re.compile(r"\bBinary\b(?!')")  # quotation marks enclose field names, not types
Write = Callable[[pl.DataFrame], None]


def check_output(path: Path, *, force: bool, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raise ParameterError for a path with another suffix, for a folder and, without `force`, for a file."""
    if path.suffix.lower() not in suffixes:
        raise ParameterError(f"{path}: unknown table format {path.suffix.lower()!r}; expected {', '.join(suffixes)}")
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; expected a file")
    if os.path.lexists(path) and not force:
        raise ParameterError(f"{path} already exists; choose another file, or overwrite it with --force")


@contextmanager
def table_writer(path: Path, keys: Sequence[str] = (), *, marked: bool = False) -> Iterator[Write]:
    """Yield a function that appends rows to the table `path`; the file appears only when the block succeeds.

    A csv or tsv file begins with a byte order mark if it is `marked`; Excel reads others in the machine's encoding.
    STDOUT gets csv. Rows with the column RAW are JSON objects with the `keys`, and columns to add to these.
    """
    kind = path.suffix.lower()
    if path == STDOUT:
        yield _line_writer(sys.stdout.buffer, ".csv", keys)
        return
    with atomic_file(path) as temporary:
        if kind == ".parquet":
            with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
                yield _parquet_writer(Path(folder), keys)
                _merge_parts(Path(folder), temporary)
            return
        with temporary.open("wb") as file:
            file.write(BOM_UTF8 if marked and kind in SEPARATORS else b"")
            yield _line_writer(file, kind, keys)


def _parquet_writer(folder: Path, keys: Sequence[str]) -> Write:
    """Return a writer that stores each chunk as a separate parquet file, since parquet files cannot be appended to."""

    def write(rows: pl.DataFrame) -> None:
        as_columns(rows, keys).write_parquet(folder / f"{len(list(folder.iterdir())):06}.parquet")

    return write


def _merge_parts(folder: Path, path: Path) -> None:
    pl.scan_parquet(sorted(folder.iterdir()), glob=False).sink_parquet(path, maintain_order=True)


def _line_writer(file: IO[bytes], kind: str, keys: Sequence[str]) -> Write:
    header = iter([True])  # the first rows get a header

    def write(rows: pl.DataFrame) -> None:
        if kind == ".jsonl" and RAW in rows.columns:
            file.writelines(f"{line}\n".encode() for line in append_keys(rows[RAW], _added(rows)))
            return
        columns = as_columns(rows, keys)
        try:
            _check_values(columns, kind)
            if kind == ".jsonl":
                lines = columns.write_ndjson()
            else:
                plain = columns.with_columns(_as_json(columns))
                lines = plain.write_csv(separator=SEPARATORS[kind], include_header=next(header, False))
        except (pl.exceptions.ComputeError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise ParameterError(
                f"a column cannot be written as {kind} ({reason}); write a .parquet file instead (--out)"
            ) from None
        file.write(lines.encode())

    return write


def _check_values(rows: pl.DataFrame, kind: str) -> None:
    """Raise TypeError for a column that a file of this kind cannot hold; bytes and NaN would become something else."""
    for name, column in ((column.name, column.alias("")) for column in rows):
        if BINARY.search(str(column.dtype)) or (kind != ".jsonl" and column.dtype == pl.Duration):
            raise TypeError(f"{name!r} has the type {column.dtype}")
        numbers = column.explode() if column.dtype in (pl.List, pl.Array) else column
        if kind == ".jsonl" and numbers.dtype.is_float() and not numbers.is_finite().all():
            raise TypeError(f"{name!r} has NaN or infinite values")


def _added(rows: pl.DataFrame) -> pl.DataFrame:
    return rows[:, rows.columns.index(RAW) + 1 :]


def as_columns(rows: pl.DataFrame, keys: Sequence[str] = ()) -> pl.DataFrame:
    """Return the rows with the `keys` of their JSON objects, or all, as columns in place of the column RAW."""
    return expand(rows[RAW], keys).hstack(_added(rows)) if RAW in rows.columns else rows


def _as_json(rows: pl.DataFrame) -> list[pl.Series]:
    """Return the nested columns (lists and structs) as JSON strings, since csv has no nested values."""
    nested = [column for column in rows if column.dtype.is_nested()]
    return [
        pl.Series(
            column.name,
            [None if value is None else json.dumps(value, ensure_ascii=False) for value in column.to_list()],
        )
        for column in nested
    ]
