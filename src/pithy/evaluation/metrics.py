"""Scores of single-label predictions, from counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pithy.evaluation.arrays import Floats, Ints, ratio
from pithy.evaluation.record import Scores


@dataclass(frozen=True)
class PerClass:
    """Scores of every label, each (..., C); `seen` is false where a label is neither in gold nor predicted."""

    precision: Floats
    recall: Floats
    f1: Floats
    seen: NDArray[np.bool_]


def per_class(hits: NDArray[Any], predicted: NDArray[Any], support: NDArray[Any]) -> PerClass:
    """Scores of every label from its counts, each (..., C): true positives, predictions, gold rows."""
    return PerClass(
        precision=ratio(hits, predicted),
        recall=ratio(hits, support),
        f1=ratio(2 * hits, predicted + support),
        seen=np.broadcast_to(predicted + support > 0, hits.shape),
    )


def macro_f1(classes: PerClass) -> Floats:
    """Mean F1 over the labels that occur in gold or prediction (as scikit-learn does), (...)."""
    return ratio(classes.f1.sum(-1), classes.seen.sum(-1))


def confusion(labels: Ints, predictions: Ints, classes: int) -> Ints:
    """Confusion matrix (C, C) of two (N,) arrays: rows gold, columns predicted."""
    return np.bincount(labels * classes + predictions, minlength=classes * classes).reshape(classes, classes)


def scores(matrix: Ints) -> Scores:
    """Scores of a confusion matrix (C, C)."""
    hits, predicted, support = np.diagonal(matrix), matrix.sum(0), matrix.sum(1)
    accuracy = float(ratio(hits.sum(), support.sum()))
    return averaged(hits, predicted, support, accuracy=accuracy, hamming_loss=1.0 - accuracy)


def averaged(hits: Ints, predicted: Ints, support: Ints, *, accuracy: float, hamming_loss: float) -> Scores:
    """The averages over labels, from their counts (C,); accuracy and Hamming loss are given."""
    classes = per_class(hits, predicted, support)
    return Scores(
        accuracy=accuracy,
        macro_f1=float(macro_f1(classes)),
        micro_f1=float(ratio(2 * hits.sum(), predicted.sum() + support.sum())),
        weighted_f1=float(ratio((classes.f1 * support).sum(), support.sum())),
        micro_precision=float(ratio(hits.sum(), predicted.sum())),
        micro_recall=float(ratio(hits.sum(), support.sum())),
        hamming_loss=hamming_loss,
    )
