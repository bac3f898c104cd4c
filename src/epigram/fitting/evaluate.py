"""Scores of a saved model on texts that have labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.data.corpus import read_corpus
from epigram.data.sources.source import read_source
from epigram.evaluation.metrics.counts import class_scores, per_class
from epigram.evaluation.metrics.function_scores import MetricFunction, metric_setting
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.multi_label import MultiLabelPredictions
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.metrics.single_label import SingleLabelPredictions
from epigram.evaluation.records.results import ClassScores, Interval
from epigram.evaluation.settings import EvaluateSettings, MetricSetting
from epigram.fitting.inputs import write_raw
from epigram.fitting.record import FitRecord
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction
from epigram.text.dataset.language import as_language
from epigram.text.tokens.characters import strip

SHOWN = {
    "single": ("accuracy", "macro_f1", "weighted_f1"),
    "multi": ("micro_f1", "macro_f1", "accuracy"),
}


@dataclass(frozen=True, kw_only=True)
class ModelScores:
    """Scores of a model on `rows` texts by metric, each with a 95% bootstrap interval, and the scores of each label.

    `confusion` has [gold, predicted, texts] of each pair of labels that occurs, if a text has one label. `notes` say
    how the texts were read.
    """

    rows: int
    scores: dict[str, Interval]
    labels: list[ClassScores]
    confusion: list[tuple[str, str, int]]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return asdict(self)


def evaluate(
    model: BasePredictor,
    data: Any,
    labels: Iterable[Any] | None = None,
    *,
    text: str | Sequence[str] | None = None,
    label: str = "label",
    options: Mapping[str, str] | None = None,
    metric: str | Mapping[str, Any] | MetricFunction | None = None,
) -> ModelScores:
    """Return how good the predictions of a model are for texts with labels.

    `data` and `labels` are as for `fit`; the columns `text` of a table are by default the columns of the model's
    training. If a column has the names of splits, only the rows of test count. A text of nothing but whitespace, and a
    missing label, is left out. A note says if the model was fitted on the same file. A `metric`, as for `fit`, is one
    more score, by its name in `Metrics`: a function is function:NAME, and of a loss the score is the negative.
    Raises the errors of `fit` for `data`, DataError if no text is left and for a label that the model does not have.
    """
    columns = text or (model.text_columns if labels is None else "text")
    with TemporaryDirectory() as place:
        raw = Path(place) / "raw"
        notes = write_raw(
            data, labels, text=columns, label=label, language=as_language(model.language), folder=raw, training=False,
            options={"join": model.join, **(options or {})}, caller="evaluate",
        )  # fmt: skip
        source = read_source(raw / "source.json")
        rows = read_corpus(source, raw)
    if rows["split"].null_count() < rows.height:
        rows = rows.filter(pl.col("split") == "test")
        notes.append(f"only the rows of test count: {rows.height:,}")
    elif {file.sha256 for file in source.files} & _fitted_files(model):
        notes.append(
            "the model was fitted on this file, so the scores are too good for new texts; its report has others"
        )
    rows = rows.filter([bool(strip(each)) for each in rows["text"].to_list()])
    if "label" in rows.columns:
        rows = rows.filter(pl.col("label") != "")  # also a null
    if not rows.height:
        raise DataError("evaluate: there is no text with a label to score; a column split needs rows of test")
    if metric is None:
        return _scores(model, rows, notes)
    with metric_setting(metric, "evaluate") as setting:
        return _scores(model, rows, notes, setting)


def _fitted_files(model: BasePredictor) -> set[str]:
    """Return the SHA-256 of the files that the model was fitted on, if `fit` has made it."""
    record = FitRecord.read_manifest(model.folder)
    return set(record.files) if record else set()


def _scores(
    model: BasePredictor, rows: pl.DataFrame, notes: list[str], setting: MetricSetting | None = None
) -> ModelScores:
    """Return the scores on the columns text and label, or labels; also by the metric of a `setting`."""
    column = "labels" if "labels" in rows.columns else "label"
    given = rows[column].to_list() if column == "labels" else [[each] for each in rows[column].to_list()]
    _check_labels(model, given)
    judged = _judged(model, model.predict(rows["text"].to_list()), given)
    counts, settings = judged.counts(), EvaluateSettings()
    metrics = [metric_of(each, judged.task, model.labels) for each in SHOWN[judged.task]]
    if setting is not None:
        metrics.append(metric_of(setting, judged.task, model.labels))
    interval = partial(score_interval, resamples=settings.resamples, confidence=settings.confidence)
    classes = per_class(counts.hits, counts.predicted, counts.support)
    return ModelScores(
        rows=rows.height,
        scores={each.name: interval(each.rows(judged)) for each in metrics},
        labels=class_scores(model.labels, classes, counts.support),
        confusion=[(model.labels[a], model.labels[b], count) for a, b, count in judged.confusion()],
        notes=notes,
    )


def _judged(
    model: BasePredictor, answers: Sequence[TextPrediction], given: Sequence[Sequence[str]]
) -> SingleLabelPredictions | MultiLabelPredictions:
    """Return the answers beside the labels that were given."""
    probabilities = np.array([list(answer.probabilities.values()) for answer in answers])[None]
    if model.multi:
        gold, predicted = _indicators(model.labels, given), _indicators(model.labels, [one.labels for one in answers])
        return MultiLabelPredictions(probabilities, predicted[None], gold)
    numbers = np.array([model.labels.index(name) for (name,) in given])
    prices = None if model.prices is None else np.array(model.prices)
    return SingleLabelPredictions(probabilities, numbers, prices)


def _indicators(labels: Sequence[str], rows: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
    """Return whether each row has each label, (N, C)."""
    return np.array([[label in names for label in labels] for names in map(set, rows)])


def _check_labels(model: BasePredictor, given: Sequence[Sequence[str]]) -> None:
    """Raise DataError if a text has a label that the model cannot predict, or several where it predicts one."""
    known = set(model.labels)
    if unknown := sorted({name for names in given for name in names if name not in known}):
        names = ", ".join(map(shown, model.labels))
        raise DataError(f"evaluate: the model has no label {shown(unknown[0])}; its labels are {names}")
    if not model.multi and any(len(names) != 1 for names in given):
        raise DataError("evaluate: some texts have several labels or none, and the model predicts one for each text")
