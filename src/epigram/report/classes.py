"""What the report shows of the classes: at most 60 labels, those with the most gold rows, in the order of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epigram.core.label_limits import MAX_CLASSES, most_frequent
from epigram.evaluation.results import ClassScores

MAX_PAIRS = 20  # most confused pairs of labels


@dataclass(frozen=True)
class LabelTable:
    """Scores of the shown labels, each with its threshold ("" for single-label); `total` counts all labels."""

    rows: list[tuple[ClassScores, str]]
    total: int


@dataclass(frozen=True)
class ConfusedPair:
    """Number of test rows with a gold label that were predicted as another label, all seeds together."""

    gold: str
    predicted: str
    rows: int


@dataclass(frozen=True)
class Confusion:
    """Shown part of a confusion matrix (S, S); rows are gold, columns predicted.

    `shares` are of all rows of the gold label, so they sum to less than 1 if not all `total` labels are shown.
    """

    labels: list[str]
    counts: list[list[int]]
    shares: list[list[float]]
    total: int


def label_table(classes: Sequence[ClassScores], thresholds: Sequence[str] = ()) -> LabelTable:
    """Return the table of the labels; `thresholds` has one entry per label, or none."""
    shown = most_frequent([each.support for each in classes])
    return LabelTable([(classes[c], thresholds[c] if thresholds else "") for c in shown], len(classes))


def confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> Confusion:
    """Return the shown part of a confusion matrix (C, C)."""
    rows = [sum(counts) for counts in matrix]
    shown = most_frequent(rows)
    counts = [[matrix[gold][predicted] for predicted in shown] for gold in shown]
    shares = [[count / max(rows[gold], 1) for count in line] for gold, line in zip(shown, counts, strict=True)]
    return Confusion([labels[c] for c in shown], counts, shares, len(labels))


def confused_pairs(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> list[ConfusedPair]:
    """Return the most confused pairs of all labels if the report does not show the whole matrix (C, C), else none.

    Pairs with equally many rows are in the order of the corpus: by gold label, then by predicted label.
    """
    if len(labels) <= MAX_CLASSES:
        return []
    wrong = np.array(matrix)
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:MAX_PAIRS]
    found = ((*divmod(place, len(labels)), int(wrong.flat[place])) for place in order.tolist())
    return [ConfusedPair(labels[gold], labels[predicted], rows) for gold, predicted, rows in found if rows]
