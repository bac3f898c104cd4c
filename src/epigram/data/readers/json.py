"""Reader for a JSON file: an array of objects, or an object whose keys have parallel lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from epigram.core.config_types import parse_json
from epigram.core.errors import DataError
from epigram.data.annotated_tasks import export_options, is_export
from epigram.data.decoding import open_text, to_utf8
from epigram.data.json_columns import ENCODE, json_columns, span_options
from epigram.data.readers import register
from epigram.data.tables import RAW, Options, TextTableReader, reader_of

EXPECTED = "expected an array of objects, or an object of lists of the same length"


@register("json")
@dataclass(frozen=True, kw_only=True)
class Json(TextTableReader):
    """Reader for a JSON file of rows or columns; it is held in memory."""

    suffixes: ClassVar[dict[str, Options]] = {".json": {}}

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield one table of all keys; lines count its rows.

        `json_columns` describes the columns. Raises DataError unless the file is an array of objects, or an object of
        lists of equal length, and for an object that repeats a key.
        """
        rows = self.rows(path)
        columns = {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
        lists = {name for name, column in columns.items() if any(isinstance(item, list) for item in column)}
        numbers = pl.int_range(1, len(rows) + 1, eager=True)
        yield numbers, json_columns(columns, lists, self, path, numbers.to_list())

    def records(self, path: Path, texts: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield the columns `texts`, and the object of each row in the column RAW."""
        rows = self.rows(path)
        values = {text: [row.get(text) for row in rows] for text in texts}
        found = json_columns(values, (), Json(text=list(texts), label=None), path, range(1, len(rows) + 1))
        yield found.with_columns(pl.Series(RAW, list(map(ENCODE, rows)), pl.String))

    def rows(self, path: Path) -> list[dict[str, Any]]:
        """Return the objects of the file, or one object for each row of its lists."""
        value = read_value(path, self.encoding)
        if isinstance(value, list) and all(isinstance(row, dict) for row in value):
            return value
        if not isinstance(value, dict) or not all(isinstance(column, list) for column in value.values()):
            raise DataError(f"{path} is not a table in JSON; {EXPECTED}")
        if len(set(map(len, value.values()))) > 1:
            raise DataError(f"{path} has lists of different lengths; {EXPECTED}")
        return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]

    @classmethod
    def detect(cls, path: Path, options: Options) -> Options:
        """Return `options` with the encoding, and with another reader for JSON lines and exports of annotations."""
        options = super().detect(path, options)
        try:
            value = read_value(path, options.get("encoding", "utf-8"))
        except DataError:
            lines = options | {"reader": "jsonl"}
            with suppress(DataError):
                reader_of(lines).describe(path)
                return lines
            raise
        if is_export(value):
            return options | export_options(value)
        return options | (span_options(value, options) if isinstance(value, list) else {})


def read_value(path: Path, encoding: str) -> Any:
    """Return the value of a JSON file. Raises DataError for invalid JSON, and for an object that repeats a key."""
    try:
        with open_text(to_utf8(path, encoding)) as file:
            return parse_json(file.read(), unique)
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error})") from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these keys and values. Raises ValueError for a key that is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"an object has the key {repeated!r} twice")
    return found
