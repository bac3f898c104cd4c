"""Reader for JSON lines: one object per line. Values of keys without a role are never interpreted."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from epigram.core.config_types import parse_json
from epigram.core.errors import DataError
from epigram.data.chunks import read_chunks
from epigram.data.csv_rows import MAX_COLUMNS
from epigram.data.decoding import to_utf8
from epigram.data.json_columns import as_json, json_columns, span_options
from epigram.data.readers import register
from epigram.data.readers.json import unique
from epigram.data.tables import RAW, Options, TextTableReader

WHITESPACE = " \t\r\n"
Lines = list[tuple[int, str]]  # number and content of each line that is not blank


@register("jsonl")
@dataclass(frozen=True, kw_only=True)
class JsonLines(TextTableReader):
    """Reader for a jsonl file."""

    suffixes: ClassVar[dict[str, Options]] = {".jsonl": {}}

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield an empty table of the keys, which may first appear in any line, then the keys `only`, or all.

        `json_columns` describes the columns. Raises DataError for a line that is not a JSON object, contains a lone
        surrogate or repeats a key of `only`, for a value that does not suit its role, and for a wrong encoding.
        """
        source = to_utf8(path, self.encoding)
        keys, lists, _ = _scan(source, path)
        names = [key for key in keys if only is None or key in only]
        _check_number(names)
        known = dict.fromkeys([*names, *keys[:MAX_COLUMNS]])  # shows a missing column
        yield pl.Series(dtype=pl.Int64), json_columns({key: [] for key in known}, lists, self, path, [])
        for lines in _lines(source, path):
            numbers = [number for number, _ in lines]
            values = _values(lines, names, path)
            yield pl.Series(numbers, dtype=pl.Int64), json_columns(values, lists, self, path, numbers)

    @classmethod
    def detect(cls, path: Path, options: Options) -> Options:
        """Return `options` with the encoding, and the spans of an export of doccano."""
        options = super().detect(path, options)
        chunks = _lines(to_utf8(path, options.get("encoding", "utf-8")), path)
        rows = (_parse(line, number, path) for lines in chunks for number, line in lines)
        return options | span_options(rows, options)

    def describe(self, path: Path) -> tuple[list[str], int]:
        """Return all keys, in the order of their first appearance, and the number of rows."""
        keys, _, rows = _scan(to_utf8(path, self.encoding), path)
        return keys, rows

    def records(self, path: Path, texts: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield the columns `texts` and each row's line in the column RAW."""
        reader = JsonLines(text=list(texts), label=None)
        for lines in _lines(to_utf8(path, self.encoding), path):
            found = json_columns(_values(lines, texts, path), (), reader, path, [number for number, _ in lines])
            yield found.with_columns(pl.Series(RAW, [line for _, line in lines], pl.String))


def _scan(source: Path | io.BytesIO, path: Path) -> tuple[list[str], set[str], int]:
    """Return all keys, the keys with a list in any row, and the number of rows."""
    keys: dict[str, None] = {}
    lists, rows = set[str](), 0
    for lines in _lines(source, path):
        rows += len(lines)
        for number, line in lines:
            row = _parse(line, number, path)
            keys |= dict.fromkeys(row)
            lists.update(key for key, value in row.items() if isinstance(value, list))
    return list(keys), lists, rows


def _check_number(keys: Sequence[str]) -> None:
    if len(keys) > MAX_COLUMNS:
        raise DataError(f"the JSON objects have more than {MAX_COLUMNS:,} keys, which cannot be columns; remove some")


def _lines(source: Path | io.BytesIO, path: Path) -> Iterator[Lines]:
    """Yield the lines of each chunk that are not blank."""
    first = 1
    for chunk in read_chunks(source, path):
        lines = chunk.decode().split("\n")
        stripped = ((number, line.strip(WHITESPACE)) for number, line in enumerate(lines, first))
        if filled := [(number, line) for number, line in stripped if line]:
            yield filled
        first += len(lines) - 1


def _values(lines: Lines, names: Sequence[str], path: Path) -> dict[str, list[Any]]:
    """Return the values of the keys `names`, None for a missing key."""
    values: dict[str, list[Any]] = {name: [] for name in names}
    quoted = {name: json.dumps(name, ensure_ascii=False) for name in names}
    for number, line in lines:
        row = _parse(line, number, path)
        for name, column in values.items():
            if line.count(quoted[name]) > 1:
                _check_repeated(line, name, number, path)
            column.append(row.get(name))
    return values


def _parse(line: str, number: int, path: Path) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except UnicodeEncodeError:
        raise DataError(
            f"{path} line {number} has an unpaired surrogate escape, such as \\ud83d without \\ude00: {line[:80]!r}"
        ) from None
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise DataError(f"{path} line {number} is not a JSON object: {line[:80]!r}; expected one object per line")
    return row


def _check_repeated(line: str, name: str, number: int, path: Path) -> None:
    """Raise DataError if the object in `line` has the key `name` twice."""
    if [key for key, _ in json.loads(line, object_pairs_hook=list)].count(name) > 1:
        raise DataError(f"{path} line {number} has the key {name!r} twice: {line[:80]!r}")


def append_keys(lines: pl.Series, added: pl.DataFrame) -> pl.Series:
    """Return each JSON object with the columns `added` as its last keys; the line is otherwise unchanged."""
    objects = added.write_ndjson().split("\n")[: len(lines)]
    frame = pl.DataFrame({"body": lines.str.strip_suffix("}").str.strip_chars_end(WHITESPACE), "added": objects})
    comma = pl.when(pl.col("body") == "{").then(pl.lit("")).otherwise(pl.lit(","))
    return frame.select(pl.col("body") + comma + pl.col("added").str.slice(1)).to_series()


def expand(lines: pl.Series, keys: Sequence[str]) -> pl.DataFrame:
    """Return the `keys`, or all, of JSON objects as columns: strings as they are, any other value as JSON.

    A missing key and null are missing values. Raises DataError for a repeated key.
    """
    try:
        rows = [parse_json(line, unique) for line in lines]
    except ValueError as error:
        raise DataError(f"a line cannot be written as columns: {error}") from None
    _check_number(names := keys or list(dict.fromkeys(key for row in rows for key in row)))
    return pl.DataFrame([pl.Series(key, [as_json(row.get(key)) for row in rows], pl.String) for key in names])
