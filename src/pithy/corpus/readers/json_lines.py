"""JSON lines: one object a line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pithy.corpus.readers.columns import ROW, Columns, map_columns
from pithy.corpus.readers.decoding import readable, reopened, utf8
from pithy.corpus.readers.pieces import pieces
from pithy.errors import DataError


@dataclass(frozen=True, kw_only=True)
class JsonLines(Columns):
    """A jsonl file."""

    encoding: str = "utf-8"


def read(path: Path, options: JsonLines) -> Iterator[pl.DataFrame]:
    """Keys that first appear far down count too; `line` counts objects.

    Raises DataError for a line that is no JSON object, a wrong encoding or a key that no line has.
    """
    source, rows = utf8(path, options.encoding), 0
    try:
        with readable(path):
            schema = _schema(source)
            for piece in pieces(source):
                table = pl.read_ndjson(piece, schema=schema).with_row_index(ROW, offset=1 + rows)
                rows += table.height
                yield map_columns(table, options, path)
    except DataError as error:
        raise _explained(path, source, error) from None


def _schema(source: Path | io.BytesIO) -> pl.Schema:
    """Every key with a type that fits all its values."""
    empty = [pl.read_ndjson(piece, infer_schema_length=None).clear() for piece in pieces(source)]
    return pl.concat(empty, how="diagonal_relaxed").schema


def _explained(path: Path, source: Path | io.BytesIO, error: DataError) -> DataError:
    """The first line that is no object, found by reading again: polars does not say which it was."""
    with reopened(source) as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and not _is_object(line):
                return DataError(f"{path} line {number} is not a JSON object: {line.strip()[:80]!r}")
    return error


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
