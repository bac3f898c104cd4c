"""Scores of predictions, from counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Bools, Floats, Ints, ratio
from epigram.evaluation.records.results import ClassScores, Scores

T = TypeVar("T")


@dataclass(frozen=True)
class LabelCounts:
    """Rows of every label: correctly predicted and predicted, (C,) or (K, C), and with the gold label, (C,)."""

    hits: Ints
    predicted: Ints
    support: Ints


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


def macro_f1(classes: PerClass, *, multi: bool) -> Floats:
    """Return the mean F1 over the labels, (...), as scikit-learn defines it.

    A label that is neither in gold nor predicted counts as 0 for multi-label and is ignored for single-label.
    """
    counted = np.array(classes.f1.shape[-1]) if multi else classes.seen.sum(-1)
    return ratio(classes.f1.sum(-1), counted)


def confusion(labels: Ints, predictions: Ints, classes: int) -> Ints:
    """Return the confusion matrix (C, C) of two (N,) arrays: rows are gold, columns predicted."""
    pairs = labels.astype(np.int64) * classes + predictions  # labels of words may have 8 bits
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def label_counts(labels: Ints, predictions: Ints, classes: int) -> LabelCounts:
    """Return the counts of every label (C,) from gold labels and predicted ones, (N,) each."""
    hits = labels[predictions == labels]
    return LabelCounts(*(np.bincount(each, minlength=classes) for each in (hits, predictions, labels)))


def scores(counts: LabelCounts) -> Scores:
    """Return the scores of texts with one label each, from the counts of every label (C,)."""
    accuracy = float(ratio(counts.hits.sum(), counts.support.sum()))
    return averaged(counts, multi=False, accuracy=accuracy, hamming_loss=1.0 - accuracy)


def averaged(counts: LabelCounts, *, multi: bool, accuracy: float, hamming_loss: float) -> Scores:
    """Return the averages over labels from their counts (C,), with the given accuracy and Hamming loss."""
    hits, predicted, support = counts.hits, counts.predicted, counts.support
    classes = per_class(hits, predicted, support)
    return Scores(
        accuracy=accuracy,
        macro_f1=float(macro_f1(classes, multi=multi)),
        micro_f1=float(ratio(2 * hits.sum(), predicted.sum() + support.sum())),
        weighted_f1=float(ratio((classes.f1 * support).sum(), support.sum())),
        micro_precision=float(ratio(hits.sum(), predicted.sum())),
        micro_recall=float(ratio(hits.sum(), support.sum())),
        hamming_loss=hamming_loss,
    )


def multi_label_scores(gold: Bools, predicted: Bools) -> Scores:
    """Return the scores of two (N, C) indicator arrays."""
    return averaged(
        LabelCounts((gold & predicted).sum(0), predicted.sum(0), gold.sum(0)),
        multi=True,
        accuracy=float((gold == predicted).all(1).mean()),
        hamming_loss=float((gold != predicted).mean()),
    )
