"""Predictions for a table: the input columns and rows, plus columns with the predictions."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from epigram.core.config_types import nearest
from epigram.core.errors import InputMissingError, ParameterError
from epigram.data.packed import file_suffix
from epigram.data.tables import Options, TableFile, formats, has_texts, open_table
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.inference.table_writer import STDOUT, check_output, table_writer
from epigram.text.lines import read_texts
from epigram.text.tokens.characters import strip

BATCH_TEXTS = 4096  # texts per prediction call and write
TEXT = "#text"  # column with the text of a row
WORD = pl.Struct({"text": pl.String, "start": pl.Int64, "end": pl.Int64, "label": pl.String, "probability": pl.Float64})
LABEL: dict[str, Any] = {"label": pl.String, "probability": pl.Float64}
LABELS: dict[str, Any] = {"labels": pl.List(pl.String), "probabilities": pl.List(pl.Float64)}


@dataclass
class RowCounts:
    """Numbers of predicted rows, of rows without text, of truncated texts, and of other texts without a label."""

    rows: int = 0
    empty: int = 0
    truncated: int = 0
    unsure: int = 0

    def add(self, texts: list[str], predictions: list[TextPrediction], *, multi: bool) -> None:
        """Count `texts` and their `predictions` by a model that is `multi`-label or not."""
        self.rows += len(texts)
        empty = sum(not strip(each) for each in texts)
        self.empty += empty
        self.truncated += sum(answer.truncated for answer in predictions)
        self.unsure += 0 if multi else sum(not answer.labels for answer in predictions) - empty


def predict_table(
    predictor: BasePredictor,
    source: Path,
    out: Path,
    *,
    text: Sequence[str] | None = None,
    force: bool = False,
    options: Options | None = None,
    level: int | None = None,
) -> RowCounts:
    """Predict the texts of the table `source` and write the table with predictions to `out`.

    The columns `text` are joined as in the training of the model. By default they are the columns of its training, or
    the column text if the table lacks one of these.

    The path - is stdout, which gets csv; otherwise, the suffixes determine the formats.

    A single-label model adds `label`, which is missing in a row below the minimum
    confidence, and `probability`. A row without a text, a missing one or one of whitespace, gets no label and the
    probability 0. A multi-label model adds `labels`, those above their thresholds, and their `probabilities`. A model
    that labels words adds `words`, those whose label is not the default. `options` are known options of the reader.
    The labels are of a `level`, if it is given, see `BasePredictor.predict`.
    Raises ParameterError for columns that do not fit and, without `force`, if `out` exists.
    """
    if out != STDOUT:
        check_output(out, force=force)
    schema = schema_of(predictor, level)
    table = open_table(source, {"text": list(text or predictor.text_columns)} | (options or {}))
    texts = choose_columns(table, text, predictor.text_columns)
    check_columns(table, texts, list(schema))
    counts = RowCounts()
    with (
        table_writer(out, table.columns, marked=is_for_excel(source)) as write,
        progress(table.rows, prints=out == STDOUT) as advance,
    ):
        for chunk in table.chunks(texts):
            for part in chunk.iter_slices(BATCH_TEXTS) if chunk.height else [chunk]:
                write(_predict_rows(predictor, part, texts, schema, counts, level))
                advance(part.height)
    return counts


def is_for_excel(table: Path) -> bool:
    """Return whether Excel has written the table: a workbook, or a text file that begins with a byte order mark."""
    if table.suffix.lower() == ".xlsx":
        return True
    with table.open("rb") as file:
        return file.read(len(BOM_UTF8)) == BOM_UTF8


def schema_of(predictor: BasePredictor, level: int | None = None) -> dict[str, Any]:
    """Return the columns that the model adds, with their types. Raises ParameterError for a level that it lacks."""
    # the data may have word labels that the model lacks
    labels_words = bool(predictor.predict(["word"], level=level)[0].words)
    words = {"words": pl.List(WORD)} if labels_words else {}
    return (LABELS if predictor.multi else LABEL) | words


def choose_columns(table: TableFile, text: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the columns `text`, or by default the `known` columns of the training, or else the column text."""
    if text is not None:
        return list(text)
    return list(known) if set(known) <= set(table.columns) else ["text"]


def check_columns(table: TableFile, texts: Sequence[str], added: list[str]) -> None:
    """Raise ParameterError if the table lacks one of the columns `texts`, or has one of the columns `added`."""
    if missing := [name for name in texts if name not in table.columns]:
        raise ParameterError(
            f"{table.path} has no column {missing[0]!r}: {nearest(missing[0], table.columns, 'its columns')} (--text)"
        )
    if existing := [name for name in added if name in table.columns]:
        raise ParameterError(
            f"{table.path} already has a column {existing[0]!r}, which the prediction would overwrite; rename it"
        )


def _predict_rows(
    predictor: BasePredictor,
    rows: pl.DataFrame,
    columns: Sequence[str],
    schema: dict[str, Any],
    counts: RowCounts,
    level: int | None,
) -> pl.DataFrame:
    texts = joined_texts(rows, columns, predictor.join)
    predictions = predictor.predict(texts, level=level)
    counts.add(texts, predictions, multi=predictor.multi)
    return rows.with_columns(
        pl.Series(name, [VALUES[name](answer, predictor.default_word_label) for answer in predictions], kind)
        for name, kind in schema.items()
    )


def joined_texts(rows: pl.DataFrame, columns: Sequence[str], join: str) -> list[str]:
    """Return the texts of the rows; a missing value is empty. Raises ParameterError for a column that is not text."""
    for column in rows.select(cs.by_name(*columns)):
        if not has_texts(column.dtype):
            raise ParameterError(f"column {column.name!r} has the type {column.dtype}; expected text (--text)")
    values = (rows[name].cast(pl.String).fill_null("").to_list() for name in columns)
    return [join.join(parts) for parts in zip(*values, strict=True)]


def read_rows(
    source: Path,
    text: Sequence[str] | None,
    known: Sequence[str],
    join: str,
    added: Sequence[str],
    options: Options | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield some rows of a table, or of a file with one text per line, at a time, with their texts in the column TEXT.

    The columns `text`, by default `known`, are joined by `join`; `added` are the columns that the caller adds.
    `options` are known options of the reader. Raises ParameterError for columns that do not fit.
    """
    if file_suffix(source) in formats():
        table = open_table(source, {"text": list(text or known)} | (options or {}))
        columns = choose_columns(table, text, known)
        check_columns(table, columns, [*added, TEXT])
        for chunk in table.chunks(columns):
            for rows in chunk.iter_slices(BATCH_TEXTS):
                yield rows.with_columns(pl.Series(TEXT, joined_texts(rows, columns, join), pl.String))
        return
    if not source.is_file():
        raise InputMissingError(f"{source} is missing; expected a file with one text per line, or a table")
    name = "text" if text is None else text[0]
    if name in {*added, TEXT}:
        raise ParameterError(f"--text is {name!r}, the name of a column that is added; choose another name")
    lines = read_texts(source, (options or {}).get("encoding"))
    while batch := list(islice(lines, BATCH_TEXTS)):
        yield pl.DataFrame({name: batch, TEXT: batch})


VALUES: dict[str, Callable[[TextPrediction, str], Any]] = {
    "label": lambda answer, _: answer.label if answer.labels else None,
    "probability": lambda answer, _: answer.probability,
    "labels": lambda answer, _: answer.labels,
    "probabilities": lambda answer, _: [answer.probabilities[label] for label in answer.labels],
    "words": lambda answer, default: [asdict(word) for word in answer.words if word.label != default],
}


def shows_progress(*, prints: bool) -> bool:
    """Return whether stderr is a terminal for a progress bar, and stdout is none if the block `prints`."""
    return sys.stderr.isatty() and not (prints and sys.stdout.isatty())


@contextmanager
def progress(rows: int | None, *, prints: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to report finished rows to; a terminal shows a progress bar with the time left on stderr.

    There is no bar if the block prints to a terminal. `rows` is None if their number is unknown.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console, shown = Console(stderr=True), shows_progress(prints=prints)
    with Progress(*columns, console=console, disable=not shown, redirect_stdout=False) as bar:
        task = bar.add_task("rows", total=rows)
        yield lambda done: bar.advance(task, done)
