"""Cells of a confusion matrix as `metrics.json` has them: [gold label, predicted label, rows].

A report shows the part of the matrix of the labels with the most rows, and the most frequent confusions. So the file
has the cells of the MAX_CLASSES gold labels with the most rows, and the MAX_CELLS largest of the other confusions.
"""

from __future__ import annotations

import numpy as np

from epigram.core.label_limits import most_frequent
from epigram.evaluation.arrays import Ints

MAX_CELLS = 10_000


def cells(gold: Ints, predicted: Ints, classes: int) -> list[list[int]]:
    """Return the cells (M, 3) with rows for (N,) labels each, in the order of the labels."""
    codes, rows = np.unique(gold * classes + predicted, return_counts=True)
    of, as_label = np.divmod(codes, classes)
    order = np.argsort(np.where(of == as_label, 0, -rows), kind="stable")
    kept = np.isin(of, most_frequent(np.bincount(gold, minlength=classes).tolist()))
    kept[order[:MAX_CELLS]] = True
    found: list[list[int]] = np.stack([of, as_label, rows], axis=1)[kept].tolist()
    return found
