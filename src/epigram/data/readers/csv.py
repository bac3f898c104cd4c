"""Reader for comma- and tab-separated files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.core.errors import DataError, ParameterError
from epigram.data.readers import register
from epigram.data.reading.chunks import read_chunks
from epigram.data.reading.columns import Columns, map_columns
from epigram.data.reading.decoding import open_text, to_utf8, translate_polars_errors

MAX_COLUMNS = 10_000  # each column needs memory, even in a short file

DOUBLE_ADVICE = 'quote a text that contains a quotation mark, and write the mark twice: "5"" long"'
QUOTED_ADVICE = "if quotation marks are plain characters in this file, set read.quote: null"
PLAIN_ADVICE = "quotation marks are plain characters here (read.quote: null), so no text can contain the separator"


@register("csv")
@dataclass(frozen=True, kw_only=True)
class Csv(Columns):
    """Reader for a csv or tsv file."""

    separator: str = ","
    quote: str | None = '"'  # null: quotation marks are plain characters
    header: list[str] | None = None  # column names, if the file has no header line
    encoding: str = "utf-8"
    first: int | None = None  # read only this many rows

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield the rows; values are strings, `line` counts rows including the header, and blank lines are skipped.

        Raises DataError for rows with too many values, unclosed quotes, a wrong encoding or missing columns,
        ParameterError for a separator or quote that is not one ASCII character.
        """
        for key, character in (("separator", self.separator), ("quote", self.quote)):
            if character is not None and (len(character) != 1 or ord(character) > 0x7F or character in "\r\n"):
                raise ParameterError(f"read.{key} is {character!r}; expected one ASCII character")
        rows = 0
        for table in read_tables(path, self):
            first = rows + (1 if self.header is not None else 2)
            rows += table.height
            # Number and filter in one pass: a separate mask and separate numbers cost `validate` a fifth more memory.
            row = "#" * (1 + max(map(len, table.columns), default=0))  # no column has this name
            numbered = table.with_row_index(row, offset=first).filter(~pl.all_horizontal(pl.exclude(row) == ""))
            yield map_columns(numbered.drop(row), self, path, numbered[row])


def read_tables(path: Path, options: Csv) -> Iterator[pl.DataFrame]:
    """Yield all columns as strings, one chunk at a time. Raises DataError as `read` does."""
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
    """Parse a chunk of the file; `columns` and the number of `rows` are those of the previous chunks."""
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
