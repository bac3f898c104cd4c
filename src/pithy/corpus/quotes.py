"""Files of others in which quotation marks are plain characters: a film of 5" length, and no end of a quote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from pithy.errors import DataError

Options = dict[str, Any]  # what stands under `read` of a source


def read_forgiving(read: Callable[[Options], pl.DataFrame], options: Options) -> tuple[Options, pl.DataFrame]:
    """What `read` makes of `options`, with quotation marks as plain characters where it fails otherwise.

    A csv that quotes some of its values does mean quotes, and stays refused: the marks would become part of the texts.
    Raises DataError.
    """
    try:
        return options, read(options)
    except DataError as fault:
        if options["reader"] != "csv":
            raise
        plain = options | {"quote": None}
        try:
            frame = read(plain)
        except DataError:
            raise fault from None
        if options.get("separator", ",") == "," and _quoted(frame):
            raise
        return plain, frame


def _quoted(frame: pl.DataFrame) -> bool:
    values = frame.select(pl.col(pl.String).str.contains(r'^".*"$').any())
    return any(values.row(0))
