"""Reader for comma- and tab-separated files, in which quotation marks may be plain characters: 5" for five inches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.errors import DataError, ParameterError, ReadOptionError
from epigram.data.chunks import NEWLINE, Chunk, read_rows
from epigram.data.csv_rows import (
    detect_separator,
    find_invalid_row,
    split_header,
    trim_quotes,
)
from epigram.data.decoding import to_utf8
from epigram.data.packed import file_suffix
from epigram.data.readers import register
from epigram.data.tables import Options, TextTableReader, reader_of

QUOTE = '"'
DETECTION_ROWS, DETECTION_SIZE = 101, 1 << 20  # first rows, with the header, by which the separator is detected

QUOTED_ADVICE = 'quote texts with a separator or a quotation mark, and write the mark twice: "5"" long"'
PLAIN_ADVICE = "quotation marks are plain characters here (read.quote: null), so no text can contain the separator"


class JoinedRowsError(DataError):
    """Error for quotation marks that probably join rows."""


@register("csv")
@dataclass(frozen=True, kw_only=True)
class Csv(TextTableReader):
    """Reader for a csv or tsv file."""

    suffixes: ClassVar[dict[str, Options]] = {".csv": {}, ".tsv": {}}

    separator: str = ","
    quote: str | None = QUOTE  # null: quotation marks are plain characters
    header: list[str] | None = None  # column names, if the file has no header line
    first: int | None = None  # read only this many rows

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield all columns as strings, and the first line of each row in the file.

        Blank lines are no rows; rows of nothing but separators, which spreadsheets add, are left out. A repeated name
        of a column gets a suffix. Raises DataError for rows with too many values, unclosed quotes or a wrong encoding,
        ParameterError for a separator or quote that is not one ASCII character.
        """
        for key, character in (("separator", self.separator), ("quote", self.quote)):
            if character is not None and (len(character) != 1 or ord(character) > 0x7F or character in "\r\n"):
                raise ParameterError(f"read.{key} is {character!r}; expected one ASCII character")
        for lines, table in _parse_chunks(path, self):
            # Number and filter in one pass: a separate mask and separate numbers cost `validate` more memory.
            row = "#" * (1 + max(map(len, table.columns), default=0))  # no column has this name
            is_filled = pl.any_horizontal(pl.exclude(row) != "") if table.width > 1 else pl.lit(value=True)
            numbered = table.insert_column(0, pl.Series(row, lines)).filter(is_filled)
            yield numbered[row], numbered.drop(row)

    def describe(self, path: Path) -> tuple[list[str], int]:
        """Return the columns and the number of rows, including rows of nothing but separators."""
        columns, rows = list[str](), 0
        for _, table in _parse_chunks(path, self):
            columns, rows = table.columns, rows + table.height
        return columns, rows

    def records(self, path: Path, texts: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield all columns of the rows, including rows of nothing but separators."""
        return (table for _, table in _parse_chunks(path, self))

    @classmethod
    def detect(cls, path: Path, options: Options) -> Options:
        """Return `options` with the encoding, the separator, and another `quote` if the file needs it.

        Quotation marks are plain characters if the file cannot be read otherwise. A csv file that quotes some of its
        values is still rejected, because the marks would become part of the texts. If `options` say that the marks are
        plain characters, a csv file that cannot be read with them may quote its values. Rows that `_check_joined_rows`
        finds are rows of a tsv file; a csv file with them is read only if it also quotes other values.
        """
        options = super().detect(path, options)
        if "separator" not in options and (separator := _detect_separator(path, options)) != ",":
            options |= {"separator": separator}
        is_tsv, quote = options.get("separator") == "\t", options.get("quote", QUOTE)
        other = options | {"quote": QUOTE if quote is None else None}
        try:
            for _ in reader_of(options).tables(path):
                pass
            _check_joined_rows(path, options)
        except DataError as error:
            quoted, is_joined = _has_quoted_values(path, other), isinstance(error, JoinedRowsError)
            if is_joined and not is_tsv and quoted is not False:
                return options
            if quoted is not None and (not is_tsv if quote is None else is_tsv or not (quoted or is_joined)):
                return other
            raise
        return options


def _detect_separator(path: Path, options: Options) -> str:
    """Return the separator of a file. Raises ReadOptionError if several are possible."""
    usual, quote = "\t" if file_suffix(path).startswith(".tsv") else ",", options.get("quote", QUOTE)
    chunk = next(read_rows(to_utf8(path, options.get("encoding", "utf-8")), path, quote), None)
    if chunk is None or chunk.ends[0] > DETECTION_SIZE:
        return usual
    texts = options.get("text", [])
    wanted = [options.get("label"), options.get("split"), *([texts] if isinstance(texts, str) else texts)]
    number = min(DETECTION_ROWS, int(np.searchsorted(chunk.ends, DETECTION_SIZE, "right")))
    rows = [row for _, row in chunk[:number].rows()]
    found, *others = detect_separator(rows, usual, quote, [name for name in wanted if name is not None])
    if others:
        header = rows[0].decode().strip()[:80]
        raise ReadOptionError(
            f"{path} has several possible separators in its header {header!r}", "separator", f"'{found}'"
        )
    return found


def _has_quoted_values(path: Path, options: Options) -> bool | None:
    """Read the whole file and return whether a value starts and ends with a quotation mark; None if it is invalid."""
    pattern = pl.all().str.contains(r'^".*"$').any()
    with suppress(DataError):
        return sum(any(table.select(pattern).row(0)) for _, table in reader_of(options).tables(path)) > 0
    return None


def _check_joined_rows(path: Path, options: Options) -> None:
    """Raise JoinedRowsError for a row of several lines, of which the first and the last are whole rows without quotes.

    Tabs are rare in texts, so these lines of a quoted text of a tsv file lack the other columns. In a csv file, they
    may have commas, so all rows of several lines must have such a first and last line.
    """
    reader, width = Csv(**{key: value for key, value in options.items() if key != "reader"}), 0
    fault: JoinedRowsError | None = None
    for rows in read_rows(to_utf8(path, reader.encoding), path, reader.quote):
        if not width:
            width = len(reader.header or split_header(rows, path, reader.separator, reader.quote)[1] or ())
        breaks = np.flatnonzero(np.frombuffer(rows.data, np.uint8) == NEWLINE)
        inside = np.diff(np.searchsorted(breaks, rows.ends - 1), prepend=0) > (np.arange(len(rows)) > 0)
        for place in np.flatnonzero(inside):
            line, row = next(rows[place : place + 1].rows())
            lines = row.decode().rstrip("\r\n").split("\n")
            if 1 < width == lines[0].count(reader.separator) + 1 == lines[-1].count(reader.separator) + 1:
                last = line + len(lines) - 1
                fault = fault or JoinedRowsError(
                    f"{path} has a quote that opens in line {line} and closes in line {last}, but both look like rows; "
                    "remove the quotation marks, or quote every value"
                )
            elif reader.separator != "\t":
                return
    if fault is not None:
        raise fault


def _parse_chunks(path: Path, options: Csv) -> Iterator[tuple[NDArray[np.int64], pl.DataFrame]]:
    """Yield the first line of each row, and all columns, one chunk at a time; the first table may be empty."""
    names, remaining = options.header, options.first
    for rows in read_rows(to_utf8(path, options.encoding), path, options.quote):
        chunk = rows
        if names is None:
            chunk, names = split_header(rows, path, options.separator, options.quote)
            if names is None:
                continue
        if remaining is not None:
            chunk = chunk[:remaining]
            remaining -= len(chunk)
        yield chunk.lines, _parse_rows(chunk, names, path, options)
        if remaining == 0:
            return
    if names is None:
        raise DataError(f"{path} has only blank lines")


def _parse_rows(chunk: Chunk, names: list[str], path: Path, options: Csv) -> pl.DataFrame:
    """Parse the rows of a chunk. Raises DataError, which names the first invalid row."""
    schema = dict.fromkeys(names, pl.String)
    if not len(chunk):
        return pl.DataFrame(schema=schema)
    data = trim_quotes(chunk.data, options.separator, options.quote)
    table = None if data is None else _parse_csv(data, schema, options)
    if table is not None and table.height == len(chunk):
        return table
    fault = find_invalid_row(chunk, len(names), options.separator, options.quote)
    place = f"{path} {fault or f'line {chunk.lines[0]} or a later one is not valid csv'}"
    if options.quote is None:
        raise DataError(f"{place}\n{PLAIN_ADVICE}")
    raise ReadOptionError(f"{place}\n{QUOTED_ADVICE}", "quote", "null", "if quotation marks are plain characters, ")


def _parse_csv(data: bytes, schema: dict[str, type[pl.String]], options: Csv) -> pl.DataFrame | None:
    """Parse rows without a header; return None for an invalid row, which polars does not name."""
    try:
        return pl.read_csv(
            data,
            separator=options.separator,
            quote_char=options.quote,
            has_header=False,
            schema=schema,
            infer_schema=False,
            missing_columns="insert",
            empty_string_is_null=False,
            glob=False,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
