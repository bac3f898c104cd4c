"""Columns of JSON values, typed by their role: strings, or lists of strings for labels and tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from epigram.core.config_types import shown
from epigram.core.errors import DataError, ReadOptionError
from epigram.data.label_values import LISTS, label_text, split_labels

if TYPE_CHECKING:
    from epigram.data.tables import TableReader

Convert = Callable[[Any], Any]
ENCODE = json.JSONEncoder(ensure_ascii=False).encode


class NestedValueError(ValueError):
    """Error for a list or an object in place of a string or a number."""


def json_columns(
    values: Mapping[str, Sequence[Any]], lists: Container[str], reader: TableReader, path: Path, lines: Sequence[int]
) -> pl.DataFrame:
    """Return `values`, the values of each key of the rows, as columns.

    `lists` has the keys that have a list in any row of the file. A label or tokens among them have the type list in
    every row. Spans are JSON texts, and so are all values but strings of a key without a role. Raises DataError, with
    the number of the row from `lines`, for a text or a label that is an object or, with another type expected, a list.
    """
    columns = []
    for name, column in values.items():
        kind, convert = _conversion(name, lists, reader)
        found = []
        for line, value in zip(lines, column, strict=True):
            try:
                found.append(convert(value))
            except NestedValueError:
                raise _nested_error(f"{path} line {line}: {name!r}", value) from None
        columns.append(pl.Series(name, found, kind))
    return pl.DataFrame(columns)


def span_options(rows: Iterable[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for marked parts of texts, as doccano exports them; none if the first labels are of texts.

    They are [start, end, label] in the column of the labels, or objects in the column `entities`.
    """
    label = options.get("label")
    for row in rows if label is not None and "spans" not in options else ():
        if not isinstance(row, dict):
            return {}
        value = row.get(label, row.get("entities"))
        if not isinstance(value, list) or value:
            first = value[0] if isinstance(value, list) else None
            if isinstance(first, list) and len(first) == 3 and isinstance(first[0], int):
                return {"spans": label, "label": None}
            if label not in row and isinstance(first, dict) and "start_offset" in first:
                return {"spans": "entities", "label": None}
            return {}
    return {}


def _conversion(name: str, lists: Container[str], reader: TableReader) -> tuple[pl.DataType, Convert]:
    """Return the type of the column `name`, and the function for its values."""
    separators = {reader.label: reader.label_separator, reader.tokens: " ", reader.token_labels: " "}
    separator = separators.get(name)
    if name in separators and name in lists:
        return pl.List(pl.String), partial(_as_list, separator=separator)
    if name in {*reader.text_columns, reader.split, *separators}:
        return pl.String(), partial(_as_text, objects=separator == LISTS)
    return pl.String(), partial(as_json, strings=name == reader.spans)


def _as_text(value: Any, *, objects: bool = False) -> str | None:
    """Return the text or the label for a value; `objects` with choices become JSON, which `split_labels` reads."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) or (isinstance(value, dict) and not (objects and "choices" in value)):
        raise NestedValueError
    return None if _is_missing(value) else label_text(value)


def as_json(value: Any, *, strings: bool = False) -> str | None:
    """Return a value as JSON; `strings` too, which are otherwise unchanged. Null and NaN are missing values."""
    if isinstance(value, str) and not strings:
        return value
    return None if _is_missing(value) else ENCODE(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _as_list(value: Any, separator: str | None) -> list[str | None] | None:
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    text = _as_text(value, objects=separator == LISTS)
    return None if text is None else [text] if separator is None else [*split_labels(text, separator)]


def _nested_error(where: str, value: Any) -> DataError:
    problem = f"{where} is {shown(ENCODE(value))}; expected a string or a number"
    if isinstance(value, dict) and "choices" in value:
        return ReadOptionError(problem, "label_separator", f"'{LISTS}'", "for labels of this form, ")
    return DataError(problem)
