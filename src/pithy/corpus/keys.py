"""The expressions by which two rows count as the same text or the same label."""

from __future__ import annotations

from collections.abc import Container

import polars as pl

SPLITS = ("train", "dev", "test")
LOOSE = "#loose"  # column of a frame that holds its `loose_text`, computed once


def exact_text() -> pl.Expr:
    """The text without white space around it: equal means the same text."""
    return pl.col("text").str.strip_chars()


def loose_text() -> pl.Expr:
    """The text in one case and width, without punctuation, white space collapsed; the exact text where nothing is left.

    Full-width forms fold to half-width (NFKC), as Chinese text mixes both.
    """
    folded = pl.col("text").str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\p{P}+", "")
    collapsed = folded.str.replace_all(r"\s+", " ").str.strip_chars()
    return collapsed.replace("", None).fill_null(exact_text())  # in this form `collapsed` is computed once


def label_column(columns: Container[str]) -> str:
    """`labels` of a multi-label corpus, `label` of any other."""
    return "labels" if "labels" in columns else "label"


def label_key(frame: pl.DataFrame) -> pl.Expr:
    """One string a row: equal means the same label, or the same set of labels."""
    column = pl.col(label_column(frame.columns))
    return column.list.sort().list.join("\x1f") if "labels" in frame.columns else column


def each_label(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """One line a row and label: `label` and the other `columns` asked for."""
    lines = frame.select(*columns, pl.col(label_column(frame.columns)).alias("label"))
    return lines.explode("label").drop_nulls("label") if "labels" in frame.columns else lines
