"""Tables of any size (csv, tsv, jsonl, parquet), read and written in chunks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import polars as pl

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import atomic_file
from epigram.data.readers import csv, jsonl
from epigram.data.readers.parquet import BATCH
from epigram.data.reading.csv_quoting import QUOTE, has_quoted_values, read_with_quote_fallback
from epigram.data.reading.decoding import guess_encoding, translate_polars_errors
from epigram.inference.texts import TABLE_SUFFIXES

SEPARATORS = {".csv": ",", ".tsv": "\t"}
Write = Callable[[pl.DataFrame], None]


@dataclass(frozen=True)
class Table:
    """A file with rows and named columns; values of csv and tsv files are strings."""

    path: Path
    columns: list[str]
    rows: int
    encoding: str = "utf-8"
    quote: str | None = QUOTE

    def chunks(self) -> Iterator[pl.DataFrame]:
        """Yield the rows in order, about 8 MB of text or 50,000 rows at a time. Raises DataError for a damaged file."""
        kind = table_format(self.path)
        if kind == ".jsonl":
            yield from jsonl.read_tables(self.path, self.encoding)
        elif kind == ".parquet":
            with translate_polars_errors(self.path):
                scan = pl.scan_parquet(self.path, glob=False)
                yield from (
                    scan.collect_batches(chunk_size=BATCH, maintain_order=True) if self.rows else [scan.collect()]
                )
        else:
            options = csv.Csv(separator=SEPARATORS[kind], quote=self.quote, encoding=self.encoding)
            yield from map(_without_blank_lines, csv.read_tables(self.path, options))


def table_format(path: Path) -> str:
    """Return the suffix in lower case. Raises ParameterError if it is not a table format."""
    kind = path.suffix.lower()
    if kind not in TABLE_SUFFIXES:
        raise ParameterError(f"{path}: unknown table format {kind!r}; expected {', '.join(TABLE_SUFFIXES)}")
    return kind


def open_table(path: Path) -> Table:
    """Read the file to find its columns, number of rows, encoding, and whether quotation marks are literal.

    Raises InputMissingError, ParameterError for an unknown suffix and DataError for a file that cannot be read.
    """
    kind = table_format(path)
    if not path.is_file():
        raise InputMissingError(f"{path} is {'a folder; expected a file' if path.is_dir() else 'missing'}")
    if kind == ".parquet":
        with translate_polars_errors(path):
            scan = pl.scan_parquet(path, glob=False)
            return Table(path, scan.collect_schema().names(), scan.select(pl.len()).collect().item())
    table = Table(path, [], 0, encoding=guess_encoding(path) or "utf-8")
    if kind == ".jsonl":
        return _scan(table)
    options = {"reader": "csv", "separator": SEPARATORS[kind], "encoding": table.encoding}
    return read_with_quote_fallback(
        lambda chosen: _scan(replace(table, quote=chosen.get("quote", QUOTE))),
        options,
        path,
        lambda table: any(map(has_quoted_values, table.chunks())),
    )[1]


def _scan(table: Table) -> Table:
    columns, rows = list[str](), 0
    try:
        for chunk in table.chunks():
            columns, rows = chunk.columns, rows + chunk.height
    except DataError as error:
        first, *others = str(error).split("\n")
        details = [line for line in others if "read." not in line]  # the others are advice about data/sources
        raise DataError("\n".join([first, *details])) from None
    if repeated := [name for name in columns if name and f"{name}_duplicated_0" in columns]:
        raise DataError(f"{table.path} has two columns named {repeated[0]!r}; rename one")
    return replace(table, columns=columns, rows=rows)


def _without_blank_lines(chunk: pl.DataFrame) -> pl.DataFrame:
    """Drop blank lines (an empty first value, nulls elsewhere). In a single column, blank lines are rows."""
    first, *others = chunk.columns
    if not others:
        return chunk
    blank = (pl.col(first) == "") & pl.all_horizontal(pl.col(others).is_null())
    return chunk.filter(~blank)


def check_output(path: Path, *, force: bool) -> None:
    """Raise ParameterError for a path with an unknown suffix, for a folder and, without `force`, for a file."""
    table_format(path)
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; expected a file")
    if os.path.lexists(path) and not force:
        raise ParameterError(f"{path} already exists; choose another file, or overwrite it with --force")


@contextmanager
def table_writer(path: Path) -> Iterator[Write]:
    """Yield a function that appends rows to the table `path`; the file appears only when the block succeeds."""
    kind = table_format(path)
    with atomic_file(path) as temporary:
        if kind == ".parquet":
            with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
                yield _parquet_writer(Path(folder))
                _merge_parts(Path(folder), temporary)
            return
        with temporary.open("wb") as file:
            yield _line_writer(file, kind)


def _parquet_writer(folder: Path) -> Write:
    """Return a writer that stores each chunk as a separate parquet file, since parquet files cannot be appended to."""

    def write(rows: pl.DataFrame) -> None:
        rows.write_parquet(folder / f"{len(list(folder.iterdir())):06}.parquet")

    return write


def _merge_parts(folder: Path, path: Path) -> None:
    pl.scan_parquet(sorted(folder.iterdir()), glob=False).sink_parquet(path, maintain_order=True)


def _line_writer(file: IO[bytes], kind: str) -> Write:
    def write(rows: pl.DataFrame) -> None:
        if kind == ".jsonl":
            rows.write_ndjson(file)
            return
        try:
            plain = rows.with_columns(_as_json(rows))
            plain.write_csv(file, separator=SEPARATORS[kind], include_header=file.tell() == 0)
        except (pl.exceptions.ComputeError, TypeError) as error:
            if getattr(error, "errno", None) or "os error" in str(error):
                raise
            reason = str(error).partition("\n")[0]
            raise ParameterError(
                f"a column cannot be written as {kind} ({reason}); write a .parquet file instead (--out)"
            ) from None

    return write


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
