"""Counts of a confusion matrix as `metrics.json` has them: the whole matrix, or of many labels the cells that matter.

A report shows the part of the matrix of the labels with the most rows, and the most frequent confusions. Of C labels,
more than TOP, only what such a report needs is kept, as cells [gold, predicted, rows]: those of the MAX_CLASSES gold
labels with the most rows, and the MAX_CELLS largest of the confusions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epigram.core.label_limits import most_frequent
from epigram.evaluation import metrics
from epigram.evaluation.arrays import Ints
from epigram.evaluation.label_probabilities import TOP

MAX_CELLS = 10_000


def counted(gold: Ints, predicted: Ints, classes: int) -> list[list[int]]:
    """Return the confusion matrix of (N,) labels each; of more than TOP `classes`, its cells in the order of labels."""
    if classes <= TOP:
        matrix: list[list[int]] = metrics.confusion(gold, predicted, classes).tolist()
        return matrix
    codes, rows = np.unique(gold * classes + predicted, return_counts=True)
    of, as_label = np.divmod(codes, classes)
    order = np.argsort(np.where(of == as_label, 0, -rows), kind="stable")
    kept = np.isin(of, most_frequent(np.bincount(gold, minlength=classes).tolist()))
    kept[order[:MAX_CELLS]] = True
    cells: list[list[int]] = np.stack([of, as_label, rows], axis=1)[kept].tolist()
    return cells


def cells(confusion: Sequence[Sequence[int]], classes: int) -> Ints:
    """Return the cells (M, 3) of what `counted` or an older version has written: [gold, predicted, rows]."""
    counts = np.array(confusion)
    if counts.shape != (classes, classes):
        return counts
    gold, predicted = np.nonzero(counts)
    return np.stack([gold, predicted, counts[gold, predicted]], axis=1)
