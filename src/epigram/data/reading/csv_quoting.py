"""Reading of files in which quotation marks may be plain characters, for example 5" for five inches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.data.reading.chunks import read_chunks
from epigram.data.reading.decoding import WIDE, to_utf8

QUOTE = '"'  # of a source without the option `quote`
NEWLINE, RETURN = b"\n\r"

Options = dict[str, Any]  # the `read` section of a source
Rows = TypeVar("Rows")


def read_with_quote_fallback(
    read: Callable[[Options], Rows], options: Options, file: Path, has_quoted: Callable[[Rows], bool]
) -> tuple[Options, Rows]:
    """Call `read` with `options`, or with another `quote` for a csv or tsv file that needs it; return both.

    Quotation marks are plain characters in a tsv file of which `has_plain_quotes` is true, and if the file cannot be
    read otherwise. A csv file that quotes some of its values (`has_quoted`) is still rejected, because the marks would
    become part of the texts. If `options` say that the marks are plain characters, a csv file that cannot be read with
    them may quote its values. Raises DataError.
    """
    if options["reader"] != "csv":
        return options, read(options)
    is_tsv, quote = options.get("separator", ",") == "\t", options.get("quote", QUOTE)
    plain = options | {"quote": None}
    if is_tsv and quote == QUOTE and has_plain_quotes(file, options.get("encoding", "utf-8")):
        return plain, read(plain)
    try:
        return options, read(options)
    except DataError as error:
        if is_tsv and quote is None:
            raise
        other = plain if quote is not None else options | {"quote": QUOTE}
        try:
            rows = read(other)
        except DataError:
            raise error from None
        if quote is not None and not is_tsv and has_quoted(rows):
            raise
        return other, rows


def has_plain_quotes(file: Path, encoding: str = "utf-8") -> bool:
    """Return whether each line of a tsv file has as many values as the first, and one has an odd number of marks.

    Then no value spans lines, and the marks quote nothing; a reader of quoted values would merge lines. The lines of a
    single column have one value in any case, so the result is False. Raises LongRowError.
    """
    # Other encodings than UTF-16 and UTF-32 have the bytes of ASCII characters only for these characters.
    source, tabs, found = to_utf8(file, encoding) if encoding.startswith(WIDE) else file, 0, False
    for chunk in read_chunks(source, file):
        data = np.frombuffer(chunk, np.uint8)
        ends = np.append(np.flatnonzero(data == NEWLINE), len(data))
        lengths = np.diff(ends, prepend=-1) - 1
        filled = (lengths > 1) | ((lengths == 1) & (data[ends - 1] != RETURN))
        in_line = _count(data, "\t", ends)[filled]
        tabs = tabs or int(in_line[:1].sum())
        if not tabs or (in_line != tabs).any():
            return False
        found |= bool((_count(data, QUOTE, ends)[filled] % 2).any())
    return found


def has_quoted_values(frame: pl.DataFrame) -> bool:
    """Return whether a value starts and ends with a quotation mark."""
    values = frame.select(pl.col(pl.String).str.contains(r'^".*"$').any())
    return any(values.row(0))


def _count(data: NDArray[np.uint8], character: str, ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the number of ASCII characters `character` in each line of `data` (N,), given the lines' `ends` (L,)."""
    return np.diff(np.searchsorted(np.flatnonzero(data == ord(character)), ends), prepend=0)
