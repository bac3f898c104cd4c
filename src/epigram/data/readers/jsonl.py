"""Reader for JSON lines: one object per line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl

from epigram.core.config_types import parse_json
from epigram.core.errors import DataError
from epigram.data.chunks import LongRowError, read_chunks
from epigram.data.decoding import open_text, to_utf8, translate_polars_errors
from epigram.data.readers import register
from epigram.data.tables import Options, TextTableReader

# escape of a surrogate without its other half
LONE_SURROGATE = re.compile(rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])")


@register("jsonl")
@dataclass(frozen=True, kw_only=True)
class JsonLines(TextTableReader):
    """Reader for a jsonl file."""

    suffixes: ClassVar[dict[str, Options]] = {".jsonl": {}}

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield all keys as columns; keys may first appear in any line, and lines count objects.

        Raises DataError for a line that is not a JSON object or contains a lone surrogate (which polars converts to a
        NUL byte), and for a wrong encoding.
        """
        source, rows = to_utf8(path, self.encoding), 0
        try:
            with translate_polars_errors(path):
                # every key with a type that fits all its values
                empty = [pl.read_ndjson(chunk, infer_schema_length=None).clear() for chunk in read_chunks(source, path)]
                schema = pl.concat(empty, how="diagonal_relaxed").schema
                for chunk in read_chunks(source, path):
                    _check_surrogates(chunk)
                    table = pl.read_ndjson(chunk, schema=schema)
                    yield pl.int_range(rows + 1, rows + table.height + 1, eager=True), table
                    rows += table.height
        except LongRowError:
            raise
        except DataError as error:
            raise _invalid_line_error(path, source, error) from None


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
