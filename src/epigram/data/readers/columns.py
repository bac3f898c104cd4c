"""Mapping of a table's named columns to text, label, split and other roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import polars.selectors as cs

from epigram.core.config_types import nearest
from epigram.core.errors import DataError
from epigram.data.sources.source import Declared


@dataclass(frozen=True, kw_only=True)
class Columns(Declared):
    """Options of readers for tables: the column of each role, or None if there is no such column."""

    text: str | list[str] = "text"  # several columns are joined by `join`
    join: str = " "
    label: str | None = "label"
    label_separator: str | None = None  # of several labels in one string: "sports|politics"
    split: str | None = None
    tokens: str | None = None  # a list, or a string that is split at spaces
    token_labels: str | None = None
    spans: str | None = None  # marked parts of the text, which become token labels
    keep: list[str] = field(default_factory=list)  # columns to keep, if this file has them

    def needed(self) -> list[str]:
        """Return the columns that the table must have."""
        texts = [self.text] if isinstance(self.text, str) else self.text
        others = (self.label, self.split, self.tokens, self.token_labels, self.spans)
        return [*texts, *(name for name in others if name is not None)]


def map_columns(table: pl.DataFrame, columns: Columns, path: Path, lines: pl.Series) -> pl.DataFrame:
    """Return line (from `lines`), text, and if declared, label, split, tokens, token_labels, spans and kept columns.

    Raises DataError for a missing column, and lists the columns of the table.
    """
    _require(columns.needed(), table.columns, path)
    texts = [columns.text] if isinstance(columns.text, str) else columns.text
    chosen: list[pl.Expr | pl.Series] = [
        lines.cast(pl.Int64).alias("line"),
        pl.concat_str([_string(table, name, path).fill_null("") for name in texts], separator=columns.join).alias(
            "text"
        ),
    ]
    if columns.label is not None:
        chosen.append(_labels(table, columns.label, columns.label_separator, path).alias("label"))
    if columns.split is not None:
        chosen.append(_string(table, columns.split, path).alias("split"))
    for role, name in (("tokens", columns.tokens), ("token_labels", columns.token_labels)):
        if name is not None:
            chosen.append(_labels(table, name, " ", path).alias(role))
    if columns.spans is not None:
        chosen.append(_column(columns.spans).alias("spans"))
    return table.select(*chosen, *(_column(name) for name in columns.keep if name in table.columns))


def _column(name: str) -> pl.Expr:
    """Return the column of exactly this name; `pl.col` treats `*` and `^x$` as patterns."""
    return cs.by_name(name).as_expr()


def _require(needed: Sequence[str], there: Sequence[str], path: Path) -> None:
    for name in needed:
        if name not in there:
            raise DataError(
                f"{path} has no column {name!r}: {nearest(name, list(there))}\n"
                f"its columns: {', '.join(map(repr, there)) or 'none'}"
            )
        if f"{name}_duplicated_0" in there:
            raise DataError(f"{path} has two columns called {name!r}: rename one")


def _string(table: pl.DataFrame, name: str, path: Path) -> pl.Expr:
    """Return the column as strings; raise DataError for nested or binary values."""
    kind = table.schema[name]
    if kind.is_nested() or kind in {pl.Binary, pl.Object}:
        raise DataError(f"{path} has {kind} in the column {name!r}, and text is needed")
    return _column(name).cast(pl.String)


def _labels(table: pl.DataFrame, name: str, separator: str | None, path: Path) -> pl.Expr:
    """Return the column as strings, or as lists of strings if it has lists or a separator."""
    kind = table.schema[name]
    if isinstance(kind, pl.List) and not kind.inner.is_nested():
        return _column(name).cast(pl.List(pl.String))
    if separator is None:
        return _string(table, name, path)
    parts = _string(table, name, path).str.split(separator).list.eval(pl.element().str.strip_chars())
    return parts.list.eval(pl.element().filter(pl.element() != ""))
