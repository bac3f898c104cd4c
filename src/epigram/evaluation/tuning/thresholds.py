"""Thresholds that turn probabilities into labels if a text may have several."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_GOLD_ROWS = 20  # gold rows that a label needs for its own threshold; with fewer, it would be noise
MAX_PASSES = 5

Floats = NDArray[np.floating[Any]]


def tuned_thresholds(gold: NDArray[np.bool_], probabilities: Floats, *, per_label: bool = False) -> Floats:
    """Return the threshold (C,) of every label for the best micro-F1 on these rows, or for the best F1 of each label.

    A row has a label if p > threshold. `gold` and `probabilities` are (N, C). Tune on development data. All labels
    start with the best common threshold, or 0.5 if no row is gold. Then each label with MIN_GOLD_ROWS gold rows moves
    to its threshold with the highest micro-F1, with all other labels' thresholds fixed, or with the highest F1 of the
    label (`per_label`). This repeats until no threshold moves, at most MAX_PASSES times.
    """
    if not gold.any():
        return np.full(gold.shape[1], 0.5, probabilities.dtype)
    thresholds = np.full(gold.shape[1], _best_threshold(gold.ravel(), probabilities.ravel(), 0, 0, int(gold.sum())))
    common = [c for c in range(gold.shape[1]) if gold[:, c].sum() >= MIN_GOLD_ROWS]
    above, positives = probabilities > thresholds, int(gold.sum())
    hits, predicted = (above & gold).sum(0), above.sum(0)  # one per label, so that a label costs one column
    for _ in range(MAX_PASSES):
        before = thresholds.copy()
        for c in common:
            others = int(hits.sum() - hits[c]), int(predicted.sum() - predicted[c]), positives
            counts = (0, 0, int(gold[:, c].sum())) if per_label else others
            thresholds[c] = _best_threshold(gold[:, c], probabilities[:, c], *counts)
            column = probabilities[:, c] > thresholds[c]
            hits[c], predicted[c] = (column & gold[:, c]).sum(), column.sum()
        if np.array_equal(thresholds, before):
            break
    return thresholds


def _best_threshold(gold: NDArray[np.bool_], probabilities: Floats, hits: int, predicted: int, positives: int) -> Any:
    """Return the cut of `probabilities` (N,) with the best F1; the other labels have `hits` correct of `predicted`."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, ones = probabilities[order], np.ones(1, probabilities.dtype)
    above, below = np.concatenate([ones, ranked]), np.concatenate([ranked, 0 * ones])
    right = hits + np.concatenate([[0], gold[order].cumsum()])
    f1 = 2 * right / (predicted + np.arange(len(above)) + positives)
    best = np.where(above > below, f1, -1.0).argmax()  # no cut separates equal probabilities
    middle = (above[best] + below[best]) / 2
    return middle if middle < above[best] else below[best]  # no float is between adjacent floats
