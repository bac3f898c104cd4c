"""Reading of files in which quotation marks may be plain characters, for example 5" for five inches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from epigram.core.errors import DataError

Options = dict[str, Any]  # the `read` section of a source


def read_with_quote_fallback(read: Callable[[Options], pl.DataFrame], options: Options) -> tuple[Options, pl.DataFrame]:
    """Call `read` with `options`; if it fails for a csv or tsv file, retry with quotation marks as plain characters.

    Return the options that worked, and the rows. A comma-separated file that quotes some of its values is still
    rejected, because the marks would become part of the texts. Raises DataError.
    """
    try:
        return options, read(options)
    except DataError as error:
        if options["reader"] != "csv":
            raise
        plain = options | {"quote": None}
        try:
            frame = read(plain)
        except DataError:
            raise error from None
        if options.get("separator", ",") == "," and _has_quoted_values(frame):
            raise
        return plain, frame


def _has_quoted_values(frame: pl.DataFrame) -> bool:
    values = frame.select(pl.col(pl.String).str.contains(r'^".*"$').any())
    return any(values.row(0))
