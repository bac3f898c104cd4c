"""Validation rules for single rows, as a pandera schema, and the pass over a corpus that applies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData
from pandera.errors import SchemaErrors

from epigram.data.validation import violations
from epigram.data.validation.row_index import LabelCodes, RowIndex, Rows, copy_frame, find_repeated, split_codes
from epigram.text.dataset.text_matching import label_column, loose_text
from epigram.text.dataset.validated_corpus import SPLITS

# whitespace, separators, control and format characters (zero-width space, byte order mark) are invisible
VISIBLE = r"[^\s\p{Z}\p{Cc}\p{Cf}]"

CONTROL = r"\p{Cc}"  # charts, terminals and tables cannot show these

STRINGS = pl.List(pl.String)
NULL_RULES = {"text": violations.EMPTY, "label": violations.NO_LABEL, "labels": violations.NO_LABEL}


def _check(name: str, holds: pl.Expr) -> pa.Check:
    """Return a check named after its rule; `holds` is true for a valid row, null if the rule does not apply."""

    def check(data: PolarsData) -> pl.LazyFrame:
        return data.lazyframe.select(holds.fill_null(True))

    return pa.Check(check, name=name)


def _text_column() -> pa.Column:
    text = pl.col("text")
    return pa.Column(
        pl.String,
        [
            _check(violations.EMPTY, text.str.contains(VISIBLE)),
            _check(violations.NUL, ~text.str.contains("\0", literal=True)),
            _check(violations.REPLACEMENT, ~text.str.contains("\N{REPLACEMENT CHARACTER}", literal=True)),
        ],
    )


def _label_column(labels: Sequence[str]) -> pa.Column:
    label = pl.col("label")
    blank = label.str.strip_chars() == ""
    known = [_check(violations.UNKNOWN_LABEL, label.is_in(labels) | blank)] if labels else []
    plain = _check(violations.CONTROL_CHARACTER, ~label.str.contains(CONTROL))
    return pa.Column(pl.String, [_check(violations.NO_LABEL, ~blank), plain, *known])


def _labels_column(labels: Sequence[str]) -> pa.Column:
    known = pl.element().is_in(labels) if labels else pl.element().str.strip_chars() != ""
    every = pl.col("labels").list.eval(known.fill_null(False)).list.all()
    checks = [
        _check(violations.UNKNOWN_LABEL if labels else violations.NO_LABEL, every),
        _no_control_characters("labels"),
    ]
    return pa.Column(STRINGS, checks)


def _no_control_characters(column: str) -> pa.Check:
    """Return the rule that no label of a list has a control character."""
    plain = ~pl.element().str.contains(CONTROL).fill_null(False)
    return _check(violations.CONTROL_CHARACTER, pl.col(column).list.eval(plain).list.all())


def _token_columns() -> dict[str, pa.Column]:
    labels = pl.col("token_labels")
    same_count = pl.col("tokens").list.len().fill_null(0) == labels.list.len().fill_null(0)
    named = labels.list.eval((pl.element().str.strip_chars() != "").fill_null(False)).list.all()
    present = pl.col("tokens").list.eval(pl.element().is_not_null()).list.all()
    joined = pl.col("tokens").list.join("").str.replace_all(r"\s", "")
    matching = pl.col("tokens").list.len().fill_null(0).eq(0) | (joined == pl.col("text").str.replace_all(r"\s", ""))
    checks = [
        _check(violations.TOKEN_COUNT, same_count),
        _check(violations.NO_TOKEN_LABEL, named),
        _no_control_characters("token_labels"),
    ]
    return {
        "tokens": pa.Column(
            STRINGS,
            [_check(violations.NO_TOKEN, present), _check(violations.TOKEN_MISMATCH, matching)],
            nullable=True,
        ),
        "token_labels": pa.Column(STRINGS, checks, nullable=True),
    }


def corpus_schema(task: str, labels: Sequence[str], *, tokens: bool = False) -> pa.DataFrameSchema:
    """Return the schema of a corpus as read.

    `labels` are the allowed labels; an empty list allows any. `tokens`: the corpus has token labels.
    """
    target = {"labels": _labels_column(labels)} if task == "multi" else {"label": _label_column(labels)}
    split = pa.Column(pl.String, _check(violations.UNKNOWN_SPLIT, pl.col("split").is_in(SPLITS)), nullable=True)
    return pa.DataFrameSchema(
        {"text": _text_column(), **target, "split": split, **(_token_columns() if tokens else {})}
    )


def check_rows(frame: pl.DataFrame, schema: pa.DataFrameSchema) -> pl.DataFrame:
    """Return every value of `frame` (with `row`, `file`, `line`) that violates a rule of `schema`.

    Raises DataError immediately if a column is missing or has the wrong type, because no other rule can be checked.
    """
    try:
        schema.validate(frame, lazy=True)
    except SchemaErrors as errors:
        found = errors.failure_cases
    else:
        return pl.DataFrame(schema=violations.COLUMNS)
    _check_structure(frame, found)
    tables = [
        _violations_of(
            frame[cases["index"].to_list()],
            str(column),
            NULL_RULES[str(column)] if check == "not_nullable" else str(check),
        )
        for (column, check), cases in found.group_by("column", "check", maintain_order=True)
    ]
    return pl.concat(tables).sort("row", maintain_order=True)


def _violations_of(rows: pl.DataFrame, column: str, rule: str) -> pl.DataFrame:
    if rule == violations.TOKEN_COUNT:
        sizes = [pl.col(name).list.len().fill_null(0) for name in ("tokens", "token_labels")]
        rows = rows.with_columns(pl.format("{} tokens and {} token labels", *sizes).alias(column))
    return violations.row_violations(rows, column, rule)


def _check_structure(frame: pl.DataFrame, found: pl.DataFrame) -> None:
    missing = found.filter(pl.col("check") == "column_in_dataframe")["failure_case"].to_list()
    mistyped = found.filter(pl.col("check").str.starts_with("dtype("))["column"].to_list()
    violated = [
        *(violations.corpus_violations(column, [None], violations.MISSING_COLUMN) for column in missing),
        *(
            violations.corpus_violations(column, [str(frame.schema[column])], violations.WRONG_TYPE)
            for column in mistyped
        ),
    ]
    if violated:
        violations.raise_violations(pl.concat(violated), {}, [])


@dataclass(frozen=True)
class RowScan:
    """Rows of a corpus, their index, and the violations of single rows."""

    rows: Rows
    index: RowIndex
    violations: pl.DataFrame


def scan_rows(rows: Rows, task: str, labels: Sequence[str], *, tokens: bool = False) -> RowScan:
    """Check and index every row in one pass; the arguments after `rows` go to `corpus_schema`."""
    schema = corpus_schema(task, labels, tokens=tokens)
    split, hashes = np.zeros(rows.count, np.uint8), np.zeros(rows.count, np.uint64)
    labels_of_rows = LabelCodes(rows.count)
    token_labels = LabelCodes(rows.count) if tokens else None
    found, start = [], 0
    for batch in rows.batches():
        found.append(copy_frame(check_rows(batch, schema)))
        here = slice(start, start + batch.height)
        split[here] = split_codes(batch["split"])
        hashes[here] = batch.select(loose_text().hash()).to_series().to_numpy()
        labels_of_rows.add(start, batch[label_column(batch.columns)])
        if token_labels is not None:
            token_labels.add(start, batch["token_labels"].list.unique(maintain_order=True))
        start += batch.height
    return RowScan(rows, RowIndex(split, labels_of_rows, token_labels, find_repeated(rows, hashes)), pl.concat(found))
