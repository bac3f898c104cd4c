"""Predictions for a table: its columns and rows as they are, with the model's answers in columns of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pithy.errors import ParameterError
from pithy.inference.predictor import Answer, Predictor
from pithy.inference.table_files import Table, kind_of, open_table, table_writer
from pithy.values import nearest

AT_ONCE = 4096  # texts that are predicted and written
WORD = pl.Struct({"text": pl.String, "start": pl.Int64, "end": pl.Int64, "label": pl.String, "probability": pl.Float64})
LABEL: dict[str, Any] = {"label": pl.String, "probability": pl.Float64}
LABELS: dict[str, Any] = {"labels": pl.List(pl.String), "probabilities": pl.List(pl.Float64)}


@dataclass
class Counts:
    """Rows that were predicted, those without a text, and those whose text is longer than the model reads."""

    rows: int = 0
    empty: int = 0
    truncated: int = 0


def predict_table(predictor: Predictor, source: Path, out: Path, *, text: str, force: bool = False) -> Counts:
    """Write the table `source` to `out` with the answers to its column `text`; the suffixes tell the formats.

    A model of one label a text adds `label` and `probability`. One of several adds `labels`, those above their
    thresholds, and `probabilities`, theirs. One that labels words adds `words`, those with a label other than the
    default. An empty or missing text is predicted like "". Raises ParameterError for columns that do not fit and,
    without `force`, if `out` exists.
    """
    kind_of(out)
    if out.is_dir():
        raise ParameterError(f"{out} is a folder: name a file")
    if os.path.lexists(out) and not force:
        raise ParameterError(f"{out} exists: name another file, or overwrite it with --force")
    table, schema = open_table(source), schema_of(predictor)
    _check(table, text, list(schema))
    counts = Counts()
    with table_writer(out) as write, progress(table.rows) as advance:
        for chunk in table.chunks():
            for part in chunk.iter_slices(AT_ONCE) if chunk.height else [chunk]:
                write(_predicted(predictor, part, text, schema, counts))
                advance(part.height)
    return counts


def schema_of(predictor: Predictor) -> dict[str, Any]:
    """The columns that the model adds, with their types."""
    labels_words = bool(predictor.answer(["word"])[0].words)  # the data may have word labels that the model has not
    words = {"words": pl.List(WORD)} if labels_words else {}
    return (LABELS if predictor.saved.model.multi else LABEL) | words


def _check(table: Table, text: str, added: list[str]) -> None:
    if text not in table.columns:
        raise ParameterError(f"{table.path} has no column {text!r}: {nearest(text, table.columns)} (--text)")
    if taken := [name for name in added if name in table.columns]:
        raise ParameterError(
            f"{table.path} has a column {taken[0]!r} already, in which the prediction would be written: rename it"
        )


def _predicted(
    predictor: Predictor, rows: pl.DataFrame, text: str, schema: dict[str, Any], counts: Counts
) -> pl.DataFrame:
    texts = rows[text]
    if texts.dtype.is_nested() or texts.dtype in {pl.Binary, pl.Object, pl.Duration}:
        raise ParameterError(f"the column {text!r} holds {texts.dtype}: texts are needed (--text)")
    given = texts.cast(pl.String).fill_null("").to_list()
    answers = predictor.answer(given)
    counts.rows += len(given)
    counts.empty += sum(not one.strip() for one in given)
    counts.truncated += sum(answer.truncated for answer in answers)
    default = next(iter(predictor.saved.frame.token_labels), "")
    return rows.with_columns(
        pl.Series(name, [VALUES[name](answer, default) for answer in answers], kind) for name, kind in schema.items()
    )


VALUES: dict[str, Callable[[Answer, str], Any]] = {
    "label": lambda answer, _: answer.label,
    "probability": lambda answer, _: answer.probability,
    "labels": lambda answer, _: answer.labels,
    "probabilities": lambda answer, _: [answer.probabilities[label] for label in answer.labels],
    "words": lambda answer, default: [asdict(word) for word in answer.words if word.label != default],
}


@contextmanager
def progress(rows: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told of finished rows; a terminal shows them as a bar on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("rows", total=rows)
        yield lambda done: bar.advance(task, done)
