"""Rows of a csv file: their values, the separator, spaces around quotes, and the first row that is invalid."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.data.chunks import NEWLINE, RETURN, SPACE, Chunk

csv.field_size_limit(1 << 30)
SEPARATORS = ",;\t|"
SEPARATOR_LINE = re.compile(rb'"?sep=([ -~\t])"?\s*')  # a first line for Excel that names the separator
RETURN_IN_VALUE = re.compile(r"\r(?!\n)")  # the module csv would end a row there
MAX_COLUMNS = 10_000  # each column needs memory, even in a short file
MIN_REGULAR = 0.5  # minimum share of rows with as many values as the header


def split_row(row: bytes, separator: str, quote: str | None, *, strict: bool = False) -> list[str]:
    """Return the values of a row. If `strict`, raises csv.Error for an unclosed quote and for text outside quotes."""
    quoting: Any = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
    text = io.StringIO(RETURN_IN_VALUE.sub(" ", row.decode().rstrip("\r\n")), newline="")
    values, *others = csv.reader(text, delimiter=separator, quotechar=quote, quoting=quoting, strict=strict)
    if strict and others:
        raise csv.Error("quote inside a value")
    return values


def split_header(chunk: Chunk, path: Path, separator: str, quote: str | None) -> tuple[Chunk, list[str] | None]:
    """Return the rows after the header and its names, or None if there is only the line `sep=`.

    Raises DataError, naming `path`, for too many columns.
    """
    chunk = chunk[int(SEPARATOR_LINE.fullmatch(next(chunk.rows())[1]) is not None) :]
    if not len(chunk):
        return chunk, None
    header = next(chunk.rows())[1]
    if header.count(separator.encode()) >= MAX_COLUMNS:
        raise DataError(f"{path} has more than {MAX_COLUMNS:,} columns; remove those that are not needed")
    return chunk[1:], unique_names(split_row(trim_quotes(header, separator, quote) or header, separator, quote))


def unique_names(names: Iterable[str]) -> list[str]:
    """Return the names of columns; one that is repeated gets a suffix, as polars adds it."""
    found, repeats = dict[str, None](), Counter[str]()
    for name in names:
        unique = name
        while unique in found:
            unique = f"{name}_duplicated_{repeats[name]}"
            repeats[name] += 1
        found[unique] = None
    return list(found)


def detect_separator(rows: Sequence[bytes], usual: str, quote: str | None, wanted: Iterable[str]) -> list[str]:
    """Return the possible separators of a file by its first rows.

    The line `sep=` names it. Otherwise it separates the column names `wanted` in the header, and most rows into as many
    values as the header; the `usual` one is preferred.
    """
    if named := SEPARATOR_LINE.fullmatch(rows[0]):
        return [named[1].decode()]
    split = {separator: [split_row(row, separator, quote) for row in rows] for separator in SEPARATORS}
    possible = [each for each in SEPARATORS if len(split[each][0]) > 1] or [usual]
    possible = [each for each in possible if set(wanted) <= set(split[each][0])] or possible
    possible = [each for each in possible if _share_regular(split[each]) >= MIN_REGULAR] or possible
    return [usual] if usual in possible else possible


def _share_regular(rows: list[list[str]]) -> float:
    return sum(len(row) == len(rows[0]) for row in rows) / len(rows)


def trim_quotes(data: bytes, separator: str, quote: str | None) -> bytes | None:
    """Return the rows without spaces between the quotes around a value and the separators or line ends.

    With these spaces, polars takes the quotes for a part of the value, or the row for an invalid one. Returns None if
    a value has no closing quote, or has text after it, for which polars would drop the quotes.
    """
    mark = (quote or "").encode()
    if not mark or mark not in data:
        return data
    codes = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    starts, ends = np.zeros((2, 256), np.bool_)
    starts[[ord(separator), NEWLINE]] = ends[[ord(separator), NEWLINE, RETURN]] = True
    quotes = _single_quotes(codes, mark)
    if len(quotes) % 2 and starts[codes[quotes[-1] - 1]]:
        return None
    opens, closes = quotes[0 : len(quotes) // 2 * 2 : 2], quotes[1::2]
    before, after = opens - 1, closes + 1
    spaced = ((codes[before] == SPACE) | (codes[after] == SPACE)) & (separator != " ")
    if spaced.any():
        filled = np.flatnonzero(codes != SPACE)
        before[spaced] = filled[np.searchsorted(filled, opens[spaced]) - 1]
        after[spaced] = filled[np.searchsorted(filled, closes[spaced] + 1)]
    is_value = ends[codes[after]]
    if (starts[codes[opens - 1]] & ~is_value).any():
        return None
    is_value &= spaced & starts[codes[before]]
    if not is_value.any():
        return data
    steps = np.zeros(len(codes), np.int8)
    for first, stop in ((before + 1, opens), (closes + 1, after)):
        steps[first[is_value]] += 1
        steps[stop[is_value]] -= 1
    return bytes(codes[np.cumsum(steps, dtype=np.int8) == 0][1:-1])


def _single_quotes(codes: NDArray[np.uint8], mark: bytes) -> NDArray[np.int64]:
    """Return the positions of quotes, opening and closing in turn, except those written twice inside a value."""
    quotes = np.flatnonzero(codes == mark[0])
    odd = np.arange(1, len(quotes) - 1, 2)
    twins = odd[quotes[odd + 1] == quotes[odd] + 1]
    return np.delete(quotes, np.append(twins, twins + 1))


def find_invalid_row(chunk: Chunk, width: int, separator: str, quote: str | None) -> str | None:
    """Return the line and the fault of the first row that is not valid csv with `width` columns."""
    for line, row in chunk.rows():
        text = row.decode().strip()[:80]
        try:
            values = len(split_row(trim_quotes(row, separator, quote) or row, separator, quote, strict=True))
        except csv.Error as error:
            fault = (
                "a quote that is not closed" if "end of data" in str(error) else "text outside the quotes of a value"
            )
            return f"line {line} has {fault}: {text!r}"
        if quote is not None and row.count(quote.encode()) % 2:
            return f"line {line} has a quote without its pair: {text!r}"
        if values > width:
            return f"line {line} has {values} values for {width} columns: {text!r}"
    return None
