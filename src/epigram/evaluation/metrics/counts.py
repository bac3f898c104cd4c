"""Counts of predicted labels, and the scores of every label from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Bools, Floats, Ints, ratio
from epigram.evaluation.records.results import ClassScores

T = TypeVar("T")


@dataclass(frozen=True)
class LabelCounts:
    """What the metrics of text labels are computed from; the leading dimensions are seeds (K), or resamples and seeds.

    Rows of every label (..., C): correctly predicted, predicted, and with the gold label. Of N `rows`, `exact` (...)
    have only right labels. `multi`: a row may have several labels.
    """

    hits: NDArray[Any]
    predicted: NDArray[Any]
    support: NDArray[Any]
    exact: NDArray[Any]
    rows: int
    multi: bool

    def without(self, label: int) -> LabelCounts:
        """Return the counts of all other labels; `exact` is of all labels."""
        left = {name: np.delete(getattr(self, name), label, -1) for name in ("hits", "predicted", "support")}
        return replace(self, **left)


@dataclass(frozen=True)
class PerClass:
    """Scores of every label, each (..., C); `seen` is false for a label that is neither in gold nor predicted."""

    precision: Floats
    recall: Floats
    f1: Floats
    seen: NDArray[np.bool_]


def per_class(hits: NDArray[Any], predicted: NDArray[Any], support: NDArray[Any]) -> PerClass:
    """Return the scores of every label from its counts, each (..., C): true positives, predictions, gold rows."""
    return PerClass(
        precision=ratio(hits, predicted),
        recall=ratio(hits, support),
        f1=ratio(2 * hits, predicted + support),
        seen=np.broadcast_to(predicted + support > 0, hits.shape),
    )


def class_scores(labels: Sequence[str], classes: PerClass, support: NDArray[Any]) -> list[ClassScores]:
    """Return every label's scores (K, C) averaged over the seeds, with its name and gold count (C,)."""
    each = zip(labels, classes.precision.mean(0), classes.recall.mean(0), classes.f1.mean(0), support, strict=True)
    return [
        ClassScores(label=label, precision=float(p), recall=float(r), f1=float(f), support=int(n))
        for label, p, r, f, n in each
    ]


def mean(parts: Sequence[T]) -> T:
    """Return the field-by-field mean of dataclasses of numbers; None for a field that is None in any of them."""
    kind: Any = type(parts[0])
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(kind)}
    means = {name: None if None in values else float(np.mean(values)) for name, values in columns.items()}
    return cast(T, kind(**means))


def confusion(labels: Ints, predictions: Ints, classes: int) -> Ints:
    """Return the confusion matrix (C, C) of two (N,) arrays: rows are gold, columns predicted."""
    pairs = labels.astype(np.int64) * classes + predictions  # labels of words may have 8 bits
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def label_counts(labels: Ints, predictions: Ints, classes: int) -> LabelCounts:
    """Return the counts of rows with one label each, from gold labels (N,) and the predictions of K seeds (K, N)."""
    hits = np.stack([np.bincount(labels[seed == labels], minlength=classes) for seed in predictions])
    predicted = np.stack([np.bincount(seed, minlength=classes) for seed in predictions])
    support = np.bincount(labels, minlength=classes)
    return LabelCounts(hits, predicted, support, hits.sum(-1), len(labels), multi=False)


def multi_label_counts(gold: Bools, predicted: Bools) -> LabelCounts:
    """Return the counts of rows with several labels: gold indicators (N, C), predictions of K seeds (K, N, C)."""
    exact = (predicted == gold).all(-1).sum(1)
    return LabelCounts((predicted & gold).sum(1), predicted.sum(1), gold.sum(0), exact, len(gold), multi=True)
