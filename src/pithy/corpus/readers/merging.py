"""One corpus out of pieces that overlap."""

from __future__ import annotations

import polars as pl

NO_LETTERS = r"[^\p{L}\p{N}]"


def distinct(frame: pl.DataFrame, *, letters_only: bool) -> pl.DataFrame:
    """Drop training rows whose text stands in dev or test, all but the first of equal ones, and those without a text.

    Rows without a split count as training rows. With `letters_only`, texts are equal when their letters and digits
    are, upper or lower case.
    """
    text = pl.col("text")
    key = text.str.to_lowercase().str.replace_all(NO_LETTERS, "") if letters_only else text
    held_out = pl.col("split").is_in(["dev", "test"]).fill_null(False)
    seen = frame.filter(held_out).select(key.unique()).to_series()
    first = key.is_first_distinct().over(held_out)
    return frame.filter(held_out | (~key.is_in(seen.implode()) & first & (text != "")))
