"""Reader for JSON lines: one object per line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.core.config_types import parse_json
from epigram.core.errors import DataError
from epigram.data.readers import register
from epigram.data.reading.chunks import LongRowError, read_chunks
from epigram.data.reading.columns import Columns, map_columns
from epigram.data.reading.decoding import open_text, to_utf8, translate_polars_errors

# escape of a surrogate without its other half
LONE_SURROGATE = re.compile(rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])")


@register("jsonl")
@dataclass(frozen=True, kw_only=True)
class JsonLines(Columns):
    """Reader for a jsonl file."""

    encoding: str = "utf-8"

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield the rows; keys may first appear in any line, and `line` counts objects.

        Raises DataError for a line that is not a JSON object or contains a lone surrogate (which polars converts to a
        NUL byte), a wrong encoding or a key that no line has.
        """
        rows = 0
        for table in read_tables(path, self.encoding):
            lines = pl.int_range(rows + 1, rows + table.height + 1, eager=True)
            rows += table.height
            yield map_columns(table, self, path, lines)


def read_tables(path: Path, encoding: str = "utf-8") -> Iterator[pl.DataFrame]:
    """Yield all keys as columns, one chunk at a time. Raises DataError as `read` does."""
    source = to_utf8(path, encoding)
    try:
        with translate_polars_errors(path):
            schema = _infer_schema(source, path)
            for chunk in read_chunks(source, path):
                _check_surrogates(chunk)
                yield pl.read_ndjson(chunk, schema=schema)
    except LongRowError:
        raise
    except DataError as error:
        raise _invalid_line_error(path, source, error) from None


def _infer_schema(source: Path | io.BytesIO, path: Path) -> pl.Schema:
    """Return every key with a type that fits all its values."""
    empty = [pl.read_ndjson(chunk, infer_schema_length=None).clear() for chunk in read_chunks(source, path)]
    return pl.concat(empty, how="diagonal_relaxed").schema


def _check_surrogates(chunk: bytes) -> None:
    """Raise DataError for a lone surrogate; only matches of HALF are parsed, as it also matches escaped backslashes."""
    if b"\\ud" not in chunk and b"\\uD" not in chunk:
        return
    for match in LONE_SURROGATE.finditer(chunk):
        start, end = chunk.rfind(b"\n", 0, match.start()) + 1, chunk.find(b"\n", match.end())
        if reason := _line_error(chunk[start : end if end >= 0 else None].decode()):
            raise DataError(reason)


def _invalid_line_error(path: Path, source: Path | io.BytesIO, error: DataError) -> DataError:
    """Return an error that names the first invalid line, found by rereading because polars does not report it."""
    with open_text(source) as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and (reason := _line_error(line)):
                return DataError(f"{path} line {number} {reason}: {line.strip()[:80]!r}")
    return error


def _line_error(line: str) -> str:
    """Return what is wrong with a line, or "" for a valid line."""
    try:
        value = parse_json(line)
    except UnicodeEncodeError:
        return "has an unpaired surrogate escape, such as \\ud83d without \\ude00"
    except ValueError:
        value = None
    return "" if isinstance(value, dict) else "is not a JSON object"
