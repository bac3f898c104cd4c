"""Tables, files with named columns: their reader by the suffix of the file, and the columns' roles in a corpus."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import polars.selectors as cs

from epigram.core.config_types import nearest
from epigram.core.errors import DataError, InputMissingError, ParameterError, ReadOptionError
from epigram.data.decoding import guess_encoding
from epigram.data.label_values import LISTS, as_labels, split_labels
from epigram.data.packed import GZIP, file_suffix
from epigram.data.readers import KINDS, Reader
from epigram.text.lines import BOM

RAW = "\0json"  # column with the JSON object of each row, for output; the columns before it are also in the object
ACCEPTED = "accept"
LABELLED_BY = "labelled_by"  # column: the machine that has labelled a row; empty for a person's label
CONFIDENCE = "confidence"  # column: the confidence of that machine, from 0 to 1
STRINGS = pl.List(pl.String)
Options = dict[str, Any]  # the `read` section of a source: reader, and the options of that reader
COMPRESSED = {GZIP, ".bz2", ".xz", ".zst", ".zip"}
FILE_OPTIONS = ("encoding", "separator", "sheet")  # options that a command line may name
COMMAND_ADVICE = {  # instead of the advice on `read` of a source
    name: f"use --{name.replace('_', '-')} {{}}" for name in (*FILE_OPTIONS, "label_separator")
}


class MissingColumnError(DataError):
    """Error for a table that lacks the column `column`."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, kw_only=True)
class TableReader(Reader):
    """Base class of readers for tables: the column of each role, or None if there is no such column.

    `suffixes` has the options that read the files of each suffix.
    """

    suffixes: ClassVar[dict[str, Options]] = {}

    text: str | list[str] = "text"  # several columns are joined by `join`
    join: str = " "
    label: str | None = "label"
    label_separator: str | None = None  # "|" of several labels in one string, sports|politics; "[]" of ["a", "b"]
    split: str | None = None
    group: str | None = None  # rows with the same value are in one split and in one fold
    time: str | None = None  # the newest rows are in the test split
    accepted: str | None = None  # column with accept, reject or ignore (Prodigy); only accepted rows are read
    tokens: str | None = None  # a list, or a string that is split at spaces
    token_labels: str | None = None
    spans: str | None = None  # marked parts of the text, which become token labels
    keep: list[str] = field(default_factory=list)  # columns to keep, if this file has them

    def __post_init__(self) -> None:
        """Check what the types cannot express."""
        if self.group is not None and self.time is not None:
            raise ParameterError(f"group is {self.group!r} and time is {self.time!r}: use one of the two")

    @abstractmethod
    def tables(self, path: Path, only: Sequence[str] | None = None) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
        """Yield the rows in order, some at a time: their lines in the file, and at least the columns `only`, or all.

        There is at least one table, which may be empty. Raises DataError for a file that cannot be read.
        """

    @property
    def text_columns(self) -> list[str]:
        """Columns that make up the text."""
        return [self.text] if isinstance(self.text, str) else self.text

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield the roles of the rows. Raises DataError as `tables` does, and for a missing column."""
        for lines, table in self.tables(
            path, [*self._required(), *self.keep, *([self.accepted] if self.accepted else [])]
        ):
            yield map_columns(table, self, path, lines)

    def without_headers(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the `rows` without repeated headers."""
        return rows.filter(~self.is_header(rows))

    def is_header(self, rows: pl.DataFrame) -> pl.Series:
        """Return for each row whether it repeats the column names, as concatenated csv files have it; it is no data.

        Each of the files may begin with a byte order mark, and write the names in another case.
        """
        if self.label is None:
            return pl.repeat(value=False, n=rows.height, eager=True)
        label = pl.col("label") if rows.schema["label"] == pl.String else pl.col("label").list.join("\n")
        names = _is_name(pl.col("text"), self.join.join(self.text_columns)) & _is_name(label, self.label)
        return rows.select(names.fill_null(value=False)).to_series()

    def describe(self, path: Path) -> tuple[list[str], int]:
        """Return the columns and the number of rows."""
        columns, rows = list[str](), 0
        for _, table in self.tables(path):
            columns, rows = table.columns, rows + table.height
        return columns, rows

    def records(self, path: Path, texts: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield all columns of the rows, some rows at a time, or the columns `texts` and the column RAW."""
        return (table for _, table in self.tables(path))

    def _required(self) -> list[str]:
        """Return the columns that the table must have."""
        others = (self.label, self.split, self.group, self.time, self.tokens, self.token_labels, self.spans)
        return [*self.text_columns, *(name for name in others if name is not None)]

    @classmethod
    def detect(cls, path: Path, options: Options) -> Options:
        """Return `options`, completed from the content of the file."""
        return options


def _is_name(values: pl.Expr, name: str) -> pl.Expr:
    """Return whether each string is the column name `name`; only strings of about its length are compared."""
    plain = values.str.strip_chars(f'{BOM}" ').str.to_lowercase() == name.strip().lower()
    return pl.when(values.str.len_chars() <= len(name) + 4).then(plain).otherwise(pl.lit(value=False))


@dataclass(frozen=True, kw_only=True)
class TextTableReader(TableReader):
    """Base class of readers for tables in text files."""

    encoding: str = "utf-8"

    @classmethod
    def detect(cls, path: Path, options: Options) -> Options:
        """Return `options` with the encoding, if it is not UTF-8. Raises DataError if it cannot be told."""
        if "encoding" in options or (encoding := guess_encoding(path)) == "utf-8":
            return options
        return options | {"encoding": encoding}


def column_names(text: str | Sequence[str]) -> str | list[str]:
    """Return the option `text` of a reader: a name, or a list of several names."""
    return text if isinstance(text, str) else text[0] if len(text) == 1 else list(text)


def formats() -> dict[str, Options]:
    """Return the options that read the tables of each suffix; text files may be compressed with gzip."""
    return {
        suffix + packed: {"reader": name} | options
        for name, kind in KINDS.items()
        if issubclass(kind, TableReader)
        for suffix, options in kind.suffixes.items()
        for packed in ("", GZIP)[: 1 + issubclass(kind, TextTableReader)]
    }


def detect(path: Path, options: Options) -> Options:
    """Return `options` completed by the reader, the encoding and the format of a file.

    Raises InputMissingError, ParameterError for an unknown suffix, and DataError if the format cannot be detected.
    """
    known, suffix = formats(), file_suffix(path)
    if suffix not in known:
        if path.suffix.lower() in COMPRESSED:
            raise ParameterError(f"{path} is compressed; unpack it, and give the unpacked file")
        raise ParameterError(f"{path} has an unsupported file type; expected {', '.join(known)}")
    if not path.is_file():
        raise InputMissingError(f"{path} is {'a folder; expected a file' if path.is_dir() else 'missing'}")
    kind: Any = KINDS[known[suffix]["reader"]]
    if unsuitable := [name for name in FILE_OPTIONS if name in options and not hasattr(kind, name)]:
        raise ParameterError(f"--{unsuitable[0]} does not apply to {path}; remove it")
    return dict(kind.detect(path, known[suffix] | options))


def reader_of(options: Options) -> TableReader:
    """Return the reader that `options` describe."""
    kind: Any = KINDS[options["reader"]]
    reader: TableReader = kind(**{key: value for key, value in options.items() if key != "reader"})
    return reader


@dataclass(frozen=True)
class TableFile:
    """File with rows and named columns; values of csv and tsv files are strings."""

    path: Path
    reader: TableReader
    columns: list[str]
    rows: int

    def chunks(self, texts: Sequence[str] = ("text",)) -> Iterator[pl.DataFrame]:
        """Yield the rows in order, as `TableReader.records` does. Raises DataError for a damaged file."""
        return self.reader.records(self.path, texts)


def open_table(path: Path, options: Options | None = None) -> TableFile:
    """Read the file to find its format, columns and number of rows; `options` are known options of its reader.

    Raises ParameterError for an unknown suffix, InputMissingError and DataError for a file that cannot be read.
    """
    try:
        reader = reader_of(detect(path, options or {}))
        columns, rows = reader.describe(path)
    except ReadOptionError as error:
        raise error.with_advice(**COMMAND_ADVICE) from None
    if repeated := [name for name in columns if f"{name}_duplicated_0" in columns]:
        first, second = (columns.index(name) + 1 for name in (repeated[0], f"{repeated[0]}_duplicated_0"))
        raise DataError(f"{path} has two columns named {repeated[0]!r} (columns {first} and {second}); rename one")
    return TableFile(path, reader, columns, rows)


def map_columns(table: pl.DataFrame, columns: TableReader, path: Path, lines: pl.Series) -> pl.DataFrame:
    """Return line (from `lines`), text, the other declared roles (label, split, group, …) and kept columns.

    Rows that are not accepted are left out, and, if LABELLED_BY is kept, rows that a machine could not label. Raises
    DataError for a missing column, and lists the columns of the table.
    """
    _check_columns(columns._required(), table.columns, path)
    if columns.accepted in table.columns:
        accepted = table[columns.accepted] == ACCEPTED
        table, lines = table.filter(accepted), lines.filter(accepted)
    marked = LABELLED_BY in columns.keep and LABELLED_BY in table.columns
    if marked and columns.label is not None and has_texts(table.schema[columns.label]):
        labelled = table.select(_has_value(columns.label) | ~is_marked()).to_series()
        table, lines = table.filter(labelled), lines.filter(labelled)
    texts = columns.text_columns
    selected: list[pl.Expr | pl.Series] = [
        lines.cast(pl.Int64).alias("line"),
        pl.concat_str(
            [_string_column(table, name, path).fill_null("") for name in texts], separator=columns.join
        ).alias("text"),
    ]
    if columns.label is not None:
        label = _label_column(table, columns.label, columns.label_separator, path)
        selected.append(label.alias("label"))
    if columns.split is not None:
        selected.append(_string_column(table, columns.split, path).alias("split"))
    for role, name in (("group", columns.group), ("time", columns.time)):
        if name is not None:
            value = _string_column(table, name, path).str.strip_chars()
            selected.append(pl.when(value != "").then(value).alias(role))
    for role, name in (("tokens", columns.tokens), ("token_labels", columns.token_labels)):
        if name is not None:
            selected.append(_label_column(table, name, " ", path).alias(role))
    if columns.spans is not None:
        selected.append(_column(columns.spans).alias("spans"))
    return table.select(*selected, *(_column(name) for name in columns.keep if name in table.columns))


def count_marked(rows: pl.DataFrame) -> int:
    """Return how many rows a machine has labelled; 0 if there is no column that says so."""
    return int(rows.select(is_marked().sum()).item()) if LABELLED_BY in rows.columns else 0


def is_marked() -> pl.Expr:
    """Return whether a machine has labelled a row, by its column LABELLED_BY."""
    return _has_value(LABELLED_BY)


def _has_value(name: str) -> pl.Expr:
    return (_column(name).cast(pl.String).str.strip_chars() != "").fill_null(value=False)


def _column(name: str) -> pl.Expr:
    """Return the column of exactly this name; `pl.col` treats `*` and `^x$` as patterns."""
    return cs.by_name(name).as_expr()


def _check_columns(required: Sequence[str], available: Sequence[str], path: Path) -> None:
    for name in required:
        if name not in available:
            raise MissingColumnError(
                f"{path} has no column {name!r}; {nearest(name, list(available), 'its columns')}\n"
                f"columns: {', '.join(map(repr, available)) or 'none'}",
                name,
            )
        if (other := f"{name}_duplicated_0") in available:
            places = f"{available.index(name) + 1} and {available.index(other) + 1}"
            raise DataError(f"{path} has two columns named {name!r} (columns {places}); rename one of them")


def _string_column(table: pl.DataFrame, name: str, path: Path) -> pl.Expr:
    """Return the column as strings; raise DataError for nested or binary values."""
    _check_type(name, table.schema[name], path)
    return _column(name).cast(pl.String)


def has_texts(dtype: Any) -> bool:
    """Return whether values of a type can be cast to strings that are texts or labels."""
    return not (dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Duration))


def _check_type(name: str, dtype: Any, path: Path) -> None:
    if not has_texts(dtype):
        raise DataError(f"{path}: column {name!r} has the type {dtype}; expected text")


def _label_column(table: pl.DataFrame, name: str, separator: str | None, path: Path) -> pl.Expr | pl.Series:
    """Return the column as strings, or as lists of strings if it contains lists or `separator` is given."""
    dtype = table.schema[name]
    if isinstance(dtype, (pl.List, pl.Array)):
        _check_type(name, dtype.inner, path)
        lists = _column(name).cast(pl.List(dtype.inner))
        return lists.list.eval(as_labels(pl.element(), dtype.inner))
    _check_type(name, dtype, path)
    labels = as_labels(_column(name), dtype)
    if separator == LISTS:
        texts = table.select(labels).to_series()
        return pl.Series([None if text is None else split_labels(text, separator) for text in texts], dtype=STRINGS)
    if separator is None:
        return labels
    parts = labels.str.split(separator).list.eval(pl.element().str.strip_chars())
    return parts.list.eval(pl.element().filter(pl.element() != ""))
