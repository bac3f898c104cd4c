"""Reader for JSON lines: one object per line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.core.config_types import parsed_json
from epigram.core.errors import DataError
from epigram.data.readers.chunks import LongRowError, pieces
from epigram.data.readers.columns import Columns, map_columns
from epigram.data.readers.decoding import readable, reopened, utf8

# escape of a surrogate without its other half
HALF = re.compile(rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])")


@dataclass(frozen=True, kw_only=True)
class JsonLines(Columns):
    """Options for a jsonl file."""

    encoding: str = "utf-8"


def read(path: Path, options: JsonLines) -> Iterator[pl.DataFrame]:
    """Yield the rows; keys may first appear in any line, and `line` counts objects.

    Raises DataError for a line that is not a JSON object or contains a lone surrogate (which polars converts to a NUL
    byte), a wrong encoding or a key that no line has.
    """
    rows = 0
    for table in tables(path, options.encoding):
        lines = pl.int_range(rows + 1, rows + table.height + 1, eager=True)
        rows += table.height
        yield map_columns(table, options, path, lines)


def tables(path: Path, encoding: str = "utf-8") -> Iterator[pl.DataFrame]:
    """Yield all keys as columns, a piece of the file at a time. Raises DataError as `read` does."""
    source = utf8(path, encoding)
    try:
        with readable(path):
            schema = _schema(source, path)
            for piece in pieces(source, path):
                _refuse_halves(piece)
                yield pl.read_ndjson(piece, schema=schema)
    except LongRowError:
        raise
    except DataError as error:
        raise _explained(path, source, error) from None


def _schema(source: Path | io.BytesIO, path: Path) -> pl.Schema:
    """Return every key with a type that fits all its values."""
    empty = [pl.read_ndjson(piece, infer_schema_length=None).clear() for piece in pieces(source, path)]
    return pl.concat(empty, how="diagonal_relaxed").schema


def _refuse_halves(piece: bytes) -> None:
    """Raise DataError for a lone surrogate; only matches of HALF are parsed, as it also matches escaped backslashes."""
    if b"\\ud" not in piece and b"\\uD" not in piece:
        return
    for half in HALF.finditer(piece):
        start, end = piece.rfind(b"\n", 0, half.start()) + 1, piece.find(b"\n", half.end())
        if fault := _fault(piece[start : end if end >= 0 else None].decode()):
            raise DataError(fault)


def _explained(path: Path, source: Path | io.BytesIO, error: DataError) -> DataError:
    """Return an error that names the first invalid line, found by rereading because polars does not report it."""
    with reopened(source) as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and (fault := _fault(line)):
                return DataError(f"{path} line {number} {fault}: {line.strip()[:80]!r}")
    return error


def _fault(line: str) -> str:
    """Return what is wrong with a line, or "" for a valid line."""
    try:
        value = parsed_json(line)
    except UnicodeEncodeError:
        return "has half a character, such as \\ud83d without the \\ude00 that belongs to it"
    except ValueError:
        value = None
    return "" if isinstance(value, dict) else "is not a JSON object"
