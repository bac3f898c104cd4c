"""Scores of multi-label predictions, and the thresholds that turn probabilities into labels."""

from __future__ import annotations

import numpy as np

from pithy.evaluation.arrays import Bools, Floats, ratio
from pithy.evaluation.metrics import averaged
from pithy.evaluation.record import Scores


def scores(gold: Bools, predicted: Bools) -> Scores:
    """Scores of two (N, C) indicator arrays."""
    return averaged(
        (gold & predicted).sum(0),
        predicted.sum(0),
        gold.sum(0),
        accuracy=float((gold == predicted).all(1).mean()),
        hamming_loss=float((gold != predicted).mean()),
    )


def tuned_thresholds(gold: Bools, probabilities: Floats) -> Floats:
    """Threshold (C,) of every label with the best F1 on these rows; a row has the label where p > threshold.

    `gold` and `probabilities` are (N, C). Tune on development data. A label without a gold row keeps 0.5.
    """
    order = np.argsort(-probabilities, axis=0, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=0)
    hits = np.take_along_axis(gold, order, axis=0).cumsum(0)
    taken = np.arange(1, len(gold) + 1)[:, None]
    f1 = ratio(2 * hits, taken + gold.sum(0))
    following = np.vstack([ranked[1:], np.zeros_like(ranked[:1])])
    # A cut between two equal probabilities cannot be made.
    best = np.where(ranked > following, f1, -1.0).argmax(0)
    column = np.arange(gold.shape[1])
    middle = (ranked[best, column] + following[best, column]) / 2
    return np.where(gold.any(0), middle, 0.5)
