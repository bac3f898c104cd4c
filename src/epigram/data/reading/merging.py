"""Removal of repeated texts from a corpus whose files overlap."""

from __future__ import annotations

import polars as pl

NO_LETTERS = r"[^\p{L}\p{N}]"


def drop_repeated_texts(frame: pl.DataFrame, *, letters_only: bool) -> pl.DataFrame:
    """Drop training rows with a text of dev or test, with the text of an earlier training row, or without a text.

    Rows without a split count as training rows. With `letters_only`, texts are equal if their letters and digits are
    equal, ignoring case.
    """
    text = pl.col("text")
    key = text.str.to_lowercase().str.replace_all(NO_LETTERS, "") if letters_only else text
    held_out = pl.col("split").is_in(["dev", "test"]).fill_null(False)
    seen = frame.filter(held_out).select(key.unique()).to_series()
    first = key.is_first_distinct().over(held_out)
    return frame.filter(held_out | (~key.is_in(seen.implode()) & first & (text != "")))
