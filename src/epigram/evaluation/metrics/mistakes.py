"""Where a system is wrong: the cells of its confusion matrix, and its most confident errors.

A cell of `metrics.json` is [gold label, predicted label, rows]. A report shows the part of the matrix of the labels
with the most rows, and the most frequent confusions. So the file has the cells of the MAX_CLASSES gold labels with the
most rows, and the MAX_CELLS largest of the other confusions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epigram.core.limits import most_frequent
from epigram.evaluation.arrays import Ints
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.records.results import Mistake

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


MAX_CHARACTERS = 300  # characters of a text that are kept


def most_confident_errors(
    predictions: SplitPredictions, labels: Sequence[str], rows: Ints, texts: Sequence[str], count: int
) -> list[Mistake]:
    """Return the `count` most confident errors of the combined seeds, most confident first.

    `rows` and `texts` have one entry for each of the N rows.
    """
    mean = predictions.mean()
    confidence = mean.errors()
    order = np.argsort(-confidence, kind="stable")[:count].tolist()
    return [
        Mistake(
            row=int(rows[i]),
            text=_truncate(texts[i]),
            gold=gold,
            predicted=predicted,
            probability=float(confidence[i]),
        )
        for i, (gold, predicted) in ((i, mean.named(labels, i)) for i in order)
        if confidence[i] >= 0
    ]


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
