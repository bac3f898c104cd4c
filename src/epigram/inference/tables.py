"""Predictions for a table: the input columns and rows, plus columns with the predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from epigram.core.config_types import nearest
from epigram.core.errors import ParameterError
from epigram.data.tables import Options, TableFile, has_texts, open_table
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.inference.table_writer import check_output, table_writer

BATCH_TEXTS = 4096  # texts per prediction call and write
WORD = pl.Struct({"text": pl.String, "start": pl.Int64, "end": pl.Int64, "label": pl.String, "probability": pl.Float64})
LABEL: dict[str, Any] = {"label": pl.String, "probability": pl.Float64}
LABELS: dict[str, Any] = {"labels": pl.List(pl.String), "probabilities": pl.List(pl.Float64)}


@dataclass
class RowCounts:
    """Numbers of predicted rows, of rows without text, of truncated texts, and of texts without a label."""

    rows: int = 0
    empty: int = 0
    truncated: int = 0
    unsure: int = 0

    def add(self, texts: list[str], predictions: list[TextPrediction], *, multi: bool) -> None:
        """Count `texts` and their `predictions` by a model that is `multi`-label or not."""
        self.rows += len(texts)
        self.empty += sum(not each.strip() for each in texts)
        self.truncated += sum(answer.truncated for answer in predictions)
        self.unsure += 0 if multi else sum(not answer.labels for answer in predictions)


def predict_table(
    predictor: BasePredictor, source: Path, out: Path, *, text: str, force: bool = False, options: Options | None = None
) -> RowCounts:
    """Predict the column `text` of the table `source` and write the table with predictions to `out`.

    The suffixes determine the formats. A single-label model adds `label`, which is missing in a row below the minimum
    confidence, and `probability`. A multi-label model adds `labels`, those above their thresholds, and their
    `probabilities`. A model that labels words adds `words`, those whose label is not the default. A missing text is
    predicted as an empty text. `options` are known options of the reader. Raises ParameterError for columns that do not
    fit and, without `force`, if `out` exists.
    """
    check_output(out, force=force)
    table, schema = open_table(source, {"text": text} | (options or {})), schema_of(predictor)
    check_columns(table, text, list(schema))
    counts = RowCounts()
    with table_writer(out, table.columns) as write, progress(table.rows) as advance:
        for chunk in table.chunks(text):
            for part in chunk.iter_slices(BATCH_TEXTS) if chunk.height else [chunk]:
                write(_predict_rows(predictor, part, text, schema, counts))
                advance(part.height)
    return counts


def schema_of(predictor: BasePredictor) -> dict[str, Any]:
    """Return the columns that the model adds, with their types."""
    labels_words = bool(predictor.predict(["word"])[0].words)  # the data may have word labels that the model lacks
    words = {"words": pl.List(WORD)} if labels_words else {}
    return (LABELS if predictor.multi else LABEL) | words


def check_columns(table: TableFile, text: str, added: list[str]) -> None:
    """Raise ParameterError if the table lacks the column `text`, or has one of the columns `added`."""
    if text not in table.columns:
        raise ParameterError(f"{table.path} has no column {text!r}: {nearest(text, table.columns)} (--text)")
    if existing := [name for name in added if name in table.columns]:
        raise ParameterError(
            f"{table.path} already has a column {existing[0]!r}, which the prediction would overwrite; rename it"
        )


def _predict_rows(
    predictor: BasePredictor, rows: pl.DataFrame, text: str, schema: dict[str, Any], counts: RowCounts
) -> pl.DataFrame:
    texts = text_column(rows, text).to_list()
    predictions = predictor.predict(texts)
    counts.add(texts, predictions, multi=predictor.multi)
    return rows.with_columns(
        pl.Series(name, [VALUES[name](answer, predictor.default_word_label) for answer in predictions], kind)
        for name, kind in schema.items()
    )


def text_column(rows: pl.DataFrame, text: str) -> pl.Series:
    """Return the texts of the rows; a missing text is empty. Raises ParameterError for a column that is not text."""
    column = rows[text].alias("")  # polars treats the names `*` and `^x$` as patterns
    if not has_texts(column.dtype):
        raise ParameterError(f"column {text!r} has the type {column.dtype}; expected text (--text)")
    return column.cast(pl.String).fill_null("")


VALUES: dict[str, Callable[[TextPrediction, str], Any]] = {
    "label": lambda answer, _: answer.label if answer.labels else None,
    "probability": lambda answer, _: answer.probability,
    "labels": lambda answer, _: answer.labels,
    "probabilities": lambda answer, _: [answer.probabilities[label] for label in answer.labels],
    "words": lambda answer, default: [asdict(word) for word in answer.words if word.label != default],
}


@contextmanager
def progress(rows: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to report finished rows to; a terminal shows a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("rows", total=rows)
        yield lambda done: bar.advance(task, done)
