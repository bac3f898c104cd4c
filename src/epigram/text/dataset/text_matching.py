"""Expressions that decide whether two rows have the same text or the same label."""

from __future__ import annotations

from collections.abc import Container

import polars as pl

LOOSE = "#loose"  # column with the precomputed `loose_text`


def exact_text() -> pl.Expr:
    """Return the text without leading and trailing whitespace; equal values are the same text."""
    return pl.col("text").str.strip_chars()


def loose_text() -> pl.Expr:
    """Return the text in lower case and normalized width, without punctuation and with collapsed whitespace.

    NFKC converts full-width forms to half-width, because Chinese text mixes both. If nothing is left, the result is
    the exact text.
    """
    folded = pl.col("text").str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\p{P}+", "")
    collapsed = folded.str.replace_all(r"\s+", " ").str.strip_chars()
    return collapsed.replace("", None).fill_null(exact_text())  # this form computes `collapsed` once


def label_column(columns: Container[str]) -> str:
    """Return `labels` for a multi-label corpus, `label` for any other."""
    return "labels" if "labels" in columns else "label"


def label_key(frame: pl.DataFrame) -> pl.Expr:
    """Return one string per row; equal values are the same label or the same set of labels."""
    column = pl.col(label_column(frame.columns))
    return column.list.sort().list.join("\x1f") if "labels" in frame.columns else column


def explode_labels(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return one line per row and label, with `label` and the requested `columns`."""
    lines = frame.select(*columns, pl.col(label_column(frame.columns)).alias("label"))
    return lines.explode("label").drop_nulls("label") if "labels" in frame.columns else lines
