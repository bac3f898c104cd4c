"""What each row adds to a primary metric, from gold labels and predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, Ints, ratio
from epigram.evaluation.metrics.counts import LabelCounts, per_class
from epigram.evaluation.metrics.row_scores import LOSS, KappaScores, LabelScores, RowScores

SMALLEST = 1e-7  # probability of which a logarithm is computed


class Judged(Protocol):
    """Gold labels, and the predictions of K seeds: class numbers, or indicators if a row may have several labels."""

    @property
    def gold(self) -> NDArray[Any]:
        """Class numbers (N,) or indicators (N, C)."""

    @property
    def predicted(self) -> NDArray[Any]:
        """Class numbers (K, N) or indicators (K, N, C)."""

    @property
    def probabilities(self) -> Floats:
        """Probabilities of the labels, (K, N, C)."""


class Decided(NamedTuple):
    """Gold labels and predictions as arrays, see `Judged`."""

    gold: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: Floats


def likelihoods(probabilities: Floats, labels: Ints) -> Floats:
    """Return the likelihoods of the gold labels by probabilities (K, N, C).

    They are (K, N) for labels (N,), and (K, N, C) if a text may have several, (N, C).
    """
    if labels.ndim == 2:
        return np.where(labels > 0, probabilities, 1 - probabilities)
    return np.asarray(probabilities[:, np.arange(len(labels)), labels])


def accuracy_rows(judged: Judged) -> RowScores:
    """Return the rows of the accuracy; with several labels per row, this is subset accuracy."""
    right = judged.predicted == judged.gold
    right = right.all(-1) if judged.gold.ndim == 2 else right
    return RowScores(right, np.ones_like(right))


def micro_f1_rows(judged: Judged) -> RowScores:
    """Return the rows of the micro-F1, which is the accuracy with one label per row."""
    if judged.gold.ndim == 1:
        return accuracy_rows(judged)
    hits = (judged.gold & judged.predicted).sum(-1).astype(float)
    return RowScores(2 * hits, (judged.predicted.sum(-1) + judged.gold.sum(-1)).astype(float))


def label_f1_rows(judged: Judged, *, label: int) -> RowScores:
    """Return the rows of the F1 of one label."""
    multi = judged.gold.ndim == 2
    gold, predicted = (each[..., label] if multi else each == label for each in (judged.gold, judged.predicted))
    return RowScores(2.0 * (gold & predicted), predicted.astype(float) + gold)


def log_loss_rows(judged: Judged) -> RowScores:
    """Return the rows of the negative log loss; with several labels per row, of its mean over the labels."""
    losses = -np.log(np.maximum(likelihoods(judged.probabilities, judged.gold), SMALLEST, dtype=float))
    losses = losses.mean(-1) if judged.gold.ndim == 2 else losses
    return RowScores(-losses, np.ones_like(losses), bounds=LOSS)


def cost_rows(judged: Judged, *, prices: Floats) -> RowScores:
    """Return the rows of the negative mean price (C, C) of predictions: rows are gold, columns predicted."""
    paid = prices[judged.gold, judged.predicted]
    return RowScores(-paid, np.ones_like(paid), bounds=LOSS)


def label_rows(judged: Judged, *, statistic: Callable[[LabelCounts], Floats]) -> LabelScores:
    """Return the rows of a metric of the counts of all labels."""
    return LabelScores(judged.gold, judged.predicted, judged.probabilities.shape[-1], statistic)


def balanced_accuracy(counts: LabelCounts) -> Floats:
    """Return the mean recall over the labels that gold rows have."""
    recall, present = per_class(counts.hits, counts.predicted, counts.support).recall, counts.support > 0
    return ratio((recall * present).sum(-1), np.broadcast_to(present, recall.shape).sum(-1))


def kappa_rows(judged: Judged) -> KappaScores:
    """Return the rows of the quadratically weighted kappa of labels in their order."""
    return KappaScores(judged.gold, judged.predicted)
