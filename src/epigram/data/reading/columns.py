"""Mapping of a table's named columns to text, label, split and other roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import polars.selectors as cs

from epigram.core.config_types import nearest
from epigram.core.errors import DataError
from epigram.data.readers import Reader


class MissingColumnError(DataError):
    """Error for a table that lacks the column `column`."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, kw_only=True)
class Columns(Reader):
    """Base class of readers for tables: the column of each role, or None if there is no such column."""

    text: str | list[str] = "text"  # several columns are joined by `join`
    join: str = " "
    label: str | None = "label"
    label_separator: str | None = None  # of several labels in one string: "sports|politics"
    split: str | None = None
    tokens: str | None = None  # a list, or a string that is split at spaces
    token_labels: str | None = None
    spans: str | None = None  # marked parts of the text, which become token labels
    keep: list[str] = field(default_factory=list)  # columns to keep, if this file has them

    def required(self) -> list[str]:
        """Return the columns that the table must have."""
        texts = [self.text] if isinstance(self.text, str) else self.text
        others = (self.label, self.split, self.tokens, self.token_labels, self.spans)
        return [*texts, *(name for name in others if name is not None)]


def map_columns(table: pl.DataFrame, columns: Columns, path: Path, lines: pl.Series) -> pl.DataFrame:
    """Return line (from `lines`), text, and if declared, label, split, tokens, token_labels, spans and kept columns.

    Raises DataError for a missing column, and lists the columns of the table.
    """
    _check_columns(columns.required(), table.columns, path)
    texts = [columns.text] if isinstance(columns.text, str) else columns.text
    selected: list[pl.Expr | pl.Series] = [
        lines.cast(pl.Int64).alias("line"),
        pl.concat_str(
            [_string_column(table, name, path).fill_null("") for name in texts], separator=columns.join
        ).alias("text"),
    ]
    if columns.label is not None:
        selected.append(_string_or_list_column(table, columns.label, columns.label_separator, path).alias("label"))
    if columns.split is not None:
        selected.append(_string_column(table, columns.split, path).alias("split"))
    for role, name in (("tokens", columns.tokens), ("token_labels", columns.token_labels)):
        if name is not None:
            selected.append(_string_or_list_column(table, name, " ", path).alias(role))
    if columns.spans is not None:
        selected.append(_column(columns.spans).alias("spans"))
    return table.select(*selected, *(_column(name) for name in columns.keep if name in table.columns))


def _column(name: str) -> pl.Expr:
    """Return the column of exactly this name; `pl.col` treats `*` and `^x$` as patterns."""
    return cs.by_name(name).as_expr()


def _check_columns(required: Sequence[str], available: Sequence[str], path: Path) -> None:
    for name in required:
        if name not in available:
            raise MissingColumnError(
                f"{path} has no column {name!r}; {nearest(name, list(available))}\n"
                f"columns: {', '.join(map(repr, available)) or 'none'}",
                name,
            )
        if f"{name}_duplicated_0" in available:
            raise DataError(f"{path} has two columns named {name!r}; rename one of them")


def _string_column(table: pl.DataFrame, name: str, path: Path) -> pl.Expr:
    """Return the column as strings; raise DataError for nested or binary values."""
    dtype = table.schema[name]
    if dtype.is_nested() or dtype in {pl.Binary, pl.Object}:
        raise DataError(f"{path}: column {name!r} has the type {dtype}; expected text")
    return _column(name).cast(pl.String)


def _string_or_list_column(table: pl.DataFrame, name: str, separator: str | None, path: Path) -> pl.Expr:
    """Return the column as strings, or as lists of strings if it contains lists or `separator` is given."""
    dtype = table.schema[name]
    if isinstance(dtype, pl.List) and not dtype.inner.is_nested():
        return _column(name).cast(pl.List(pl.String))
    if separator is None:
        return _string_column(table, name, path)
    parts = _string_column(table, name, path).str.split(separator).list.eval(pl.element().str.strip_chars())
    return parts.list.eval(pl.element().filter(pl.element() != ""))
