"""What the report shows of the classes: at most 60 labels with the most gold rows, in the order of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epigram.core.limits import most_frequent
from epigram.evaluation.records.results import ClassScores

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


def confusion(labels: Sequence[str], cells: Sequence[Sequence[int]]) -> Confusion:
    """Return the shown part of a confusion matrix, with `cells` as `Metrics` has them."""
    gold, predicted, rows = np.array(cells).T
    support = np.bincount(gold, rows, len(labels)).astype(int)
    shown = most_frequent(support.tolist())
    place = np.full(len(labels), -1)
    place[shown] = np.arange(len(shown))
    part = (place[gold] >= 0) & (place[predicted] >= 0)
    matrix = np.zeros((len(shown), len(shown)), int)
    matrix[place[gold[part]], place[predicted[part]]] = rows[part]
    shares = matrix / np.maximum(support[shown], 1)[:, None]
    return Confusion([labels[c] for c in shown], matrix.tolist(), shares.tolist(), len(labels))


def confused_pairs(labels: Sequence[str], cells: Sequence[Sequence[int]]) -> list[ConfusedPair]:
    """Return the most confused pairs of labels, the most frequent first.

    Pairs with equally many rows are in the order of the corpus: by gold label, then by predicted label.
    """
    known = np.array(cells)
    wrong = known[known[:, 0] != known[:, 1]]
    order = np.lexsort((wrong[:, 1], wrong[:, 0], -wrong[:, 2]))[:MAX_PAIRS]
    return [ConfusedPair(labels[gold], labels[predicted], rows) for gold, predicted, rows in wrong[order].tolist()]
