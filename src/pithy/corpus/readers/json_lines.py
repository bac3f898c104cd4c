"""JSON lines: one object a line."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pithy.corpus.readers.columns import ROW, Columns, map_columns
from pithy.corpus.readers.decoding import readable, reopened, utf8
from pithy.errors import DataError


@dataclass(frozen=True, kw_only=True)
class JsonLines(Columns):
    """A jsonl file."""

    encoding: str = "utf-8"


def read(path: Path, options: JsonLines) -> pl.DataFrame:
    """Keys that first appear far down count too; `line` counts objects.

    Raises DataError for a line that is no JSON object, a wrong encoding or a key that no line has.
    """
    source = utf8(path, options.encoding)
    try:
        with readable(path):
            table = pl.read_ndjson(source, infer_schema_length=None).with_row_index(ROW, offset=1)
    except DataError as error:
        raise _explained(path, source, error) from None
    return map_columns(table, options, path)


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
