"""Reader for comma- and tab-separated files, in which quotation marks may be plain characters: 5" for five inches."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.errors import DataError, ParameterError
from epigram.data.chunks import read_chunks
from epigram.data.decoding import WIDE, open_text, to_utf8, translate_polars_errors
from epigram.data.readers import register
from epigram.data.tables import Options, TextTableReader, reader_of

MAX_COLUMNS = 10_000  # each column needs memory, even in a short file
QUOTE = '"'
NEWLINE, RETURN = b"\n\r"

DOUBLE_ADVICE = 'quote a text that contains a quotation mark, and write the mark twice: "5"" long"'
QUOTED_ADVICE = "if quotation marks are plain characters in this file, set read.quote: null"
PLAIN_ADVICE = "quotation marks are plain characters here (read.quote: null), so no text can contain the separator"


@register("csv")
@dataclass(frozen=True, kw_only=True)
class Csv(TextTableReader):
    """Reader for a csv or tsv file."""

    suffixes: ClassVar[dict[str, Options]] = {".csv": {}, ".tsv": {"separator": "\t"}}

    separator: str = ","
    quote: str | None = QUOTE  # null: quotation marks are plain characters
    header: list[str] | None = None  # column names, if the file has no header line
    first: int | None = None  # read only this many rows

    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield all columns as strings; lines count rows including the header, and blank lines are skipped.

        Raises DataError for rows with too many values, unclosed quotes or a wrong encoding, ParameterError for a
        separator or quote that is not one ASCII character.
        """
        for key, character in (("separator", self.separator), ("quote", self.quote)):
            if character is not None and (len(character) != 1 or ord(character) > 0x7F or character in "\r\n"):
                raise ParameterError(f"read.{key} is {character!r}; expected one ASCII character")
        line = 1 if self.header is not None else 2
        for table in _parse_chunks(path, self):
            # Number and filter in one pass: a separate mask and separate numbers cost `validate` a fifth more memory.
            row = "#" * (1 + max(map(len, table.columns), default=0))  # no column has this name
            numbered = table.with_row_index(row, offset=line).filter(~pl.all_horizontal(pl.exclude(row) == ""))
            line += table.height
            yield numbered[row], numbered.drop(row)

    @classmethod
    def detect(cls, path: Path, options: Options) -> Options:
        """Return `options` with the encoding, and another `quote` if the file needs it.

        Quotation marks are plain characters in a tsv file of which `has_plain_quotes` is true, and if the file cannot
        be read otherwise. A csv file that quotes some of its values is still rejected, because the marks would become
        part of the texts. If `options` say that the marks are plain characters, a csv file that cannot be read with
        them may quote its values.
        """
        options = super().detect(path, options)
        is_tsv, quote = options.get("separator") == "\t", options.get("quote", QUOTE)
        plain = options | {"quote": None}
        if is_tsv and quote == QUOTE and has_plain_quotes(path, options.get("encoding", "utf-8")):
            return plain
        try:
            for _ in reader_of(options).tables(path):
                pass
        except DataError:
            other = plain if quote is not None else options | {"quote": QUOTE}
            with suppress(DataError):
                quoted = _has_quoted_values(path, other)
                if (is_tsv or not quoted) if quote is not None else not is_tsv:
                    return other
            raise
        return options


def _has_quoted_values(path: Path, options: Options) -> bool:
    """Read the whole file and return whether a value starts and ends with a quotation mark. Raises DataError."""
    pattern = pl.all().str.contains(r'^".*"$').any()
    return sum(any(table.select(pattern).row(0)) for _, table in reader_of(options).tables(path)) > 0


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


def _count(data: NDArray[np.uint8], character: str, ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the number of ASCII characters `character` in each line of `data` (N,), given the lines' `ends` (L,)."""
    return np.diff(np.searchsorted(np.flatnonzero(data == ord(character)), ends), prepend=0)


def _parse_chunks(path: Path, options: Csv) -> Iterator[pl.DataFrame]:
    """Yield all rows and columns, one chunk at a time."""
    source = to_utf8(path, options.encoding)
    columns: list[str] = []
    rows = 0
    for chunk in read_chunks(source, path, options.quote):
        if not columns and chunk.partition(b"\n")[0].count(options.separator.encode()) >= MAX_COLUMNS:
            raise DataError(f"{path} has more than {MAX_COLUMNS:,} columns; remove those that are not needed")
        try:
            with translate_polars_errors(path):
                table = _parse_csv(chunk, options, columns, rows)
        except DataError as error:
            raise _invalid_row_error(path, source, options, error) from None
        columns, rows = table.columns, rows + table.height
        yield table
        if rows == options.first:
            return


def _parse_csv(chunk: bytes, options: Csv, columns: list[str], rows: int) -> pl.DataFrame:
    """Parse a chunk of the file; `columns` and the number of `rows` are from the previous chunks."""
    return pl.read_csv(
        chunk,
        separator=options.separator,
        quote_char=options.quote,
        has_header=options.header is None and not columns,
        new_columns=None if columns else options.header,
        schema=dict.fromkeys(columns, pl.String) or None,
        n_rows=None if options.first is None else options.first - rows,
        infer_schema=False,
        empty_string_is_null=False,
        glob=False,
    )


def _invalid_row_error(path: Path, source: Path | io.BytesIO, options: Csv, error: DataError) -> DataError:
    """Return an error that names the first invalid row, found by rereading because polars does not report it."""
    advice = f"quote texts that contain the separator\n{QUOTED_ADVICE}" if options.quote is not None else PLAIN_ADVICE
    csv.field_size_limit(1 << 30)
    try:
        with open_text(source) as file:
            rows = csv.reader(
                file,
                delimiter=options.separator,
                quotechar=options.quote,
                quoting=csv.QUOTE_NONE if options.quote is None else csv.QUOTE_MINIMAL,
            )
            width = len(options.header) if options.header is not None else len(next(rows))
            for row in rows:
                if len(row) > width:
                    text, found = options.separator.join(row), f"{len(row)} values for {width} columns"
                    return DataError(f"{path} line {rows.line_num} has {found}: {text[:80]!r}\n{advice}")
    except (csv.Error, StopIteration, ValueError):
        pass
    return DataError(f"{error}\n{DOUBLE_ADVICE}\n{QUOTED_ADVICE}") if options.quote is not None else error
