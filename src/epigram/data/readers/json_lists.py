"""Reader for one JSON object whose keys have parallel lists, as in AAPD."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.core.config_types import parse_json
from epigram.core.errors import DataError
from epigram.data.decoding import open_text, to_utf8
from epigram.data.json_columns import json_columns
from epigram.data.readers import register
from epigram.data.tables import TextTableReader


@register("json_lists")
@dataclass(frozen=True, kw_only=True)
class JsonLists(TextTableReader):
    """Reader for a JSON file of columns."""

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield one table of all lists; lines count its rows.

        Raises DataError unless the file is an object of lists of equal length.
        """
        source = to_utf8(path, self.encoding)
        try:
            with open_text(source) as file:
                value = parse_json(file.read())
        except ValueError as error:
            raise DataError(f"{path} is not valid JSON ({error})") from None
        if not isinstance(value, dict) or not all(isinstance(column, list) for column in value.values()):
            raise DataError(f"{path} is not a JSON object of lists")
        if len({len(column) for column in value.values()}) > 1:
            raise DataError(f"{path} has lists of different lengths; expected lists of the same length")
        lists = {name for name, column in value.items() if any(isinstance(item, list) for item in column)}
        rows = pl.int_range(1, len(next(iter(value.values()), [])) + 1, eager=True)
        yield rows, json_columns(value, lists, self, path, rows.to_list())
