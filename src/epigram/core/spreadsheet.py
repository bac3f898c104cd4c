"""Protection of people who open a csv file in a spreadsheet program."""

from __future__ import annotations

import re

import polars as pl

# More than one character, of which the first begins a formula, and no number.
FORMULA = re.compile(r"(?![+-]?(\d[\d.,]*|\.\d+)(e[+-]?\d+)?%?\Z)[=+\-@\t\r].", re.DOTALL | re.IGNORECASE)


def escape_formulas(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return the frame with an apostrophe before each text that a spreadsheet would run, and the number of these.

    Column names are escaped too, and not counted.
    """
    texts = [column for column in frame if column.dtype == pl.String]
    escaped = [pl.Series(column.name, [text and _escape(text) for text in column], pl.String) for column in texts]
    changed = sum(int((one != other).sum()) for one, other in zip(texts, escaped, strict=True))
    return frame.with_columns(escaped).rename(_escape), changed


def _escape(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) else text
