"""Protection of people who open a csv file in a spreadsheet program."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs

FORMULA = r"^[=+\-@\t\r]."  # first characters of a formula; one character alone is none
NUMBER = r"^[+-]?(\d[\d.,]*|\.\d+)([eE][+-]?\d+)?%?$"


def escape_formulas(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return the frame with an apostrophe before each text that a spreadsheet would run, and the number of these."""
    text = cs.string()
    is_formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    found = frame.select(is_formula.sum()).row(0) if frame.select(text).width else ()
    return frame.with_columns(pl.when(is_formula).then(text.str.replace("^", "'")).otherwise(text)), sum(found)
