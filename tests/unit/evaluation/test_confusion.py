"""Tests of the cells of a confusion matrix: all of them, or those that a report needs of many labels."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.metrics import mistakes
from epigram.evaluation.metrics.mistakes import cells
from epigram.report import classes


def labels(count: int, rows: int = 4_000) -> tuple[np.ndarray, np.ndarray]:
    """Return gold and predicted labels; low labels have more rows."""
    draw = np.random.default_rng(0)
    gold = np.minimum(draw.geometric(min(0.9, 3 / count), rows) - 1, count - 1)
    return gold, np.where(draw.random(rows) < 0.6, gold, (gold + draw.geometric(0.2, rows)) % count)


def matrix(gold: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, count), int)
    np.add.at(out, (gold, predicted), 1)
    return out


@pytest.mark.parametrize("count", [2, 3, 20, 70])
def test_the_cells_are_those_of_the_matrix(count: int) -> None:
    gold, predicted = labels(count)
    whole = matrix(gold, predicted, count)
    assert cells(gold, predicted, count) == [
        [of, as_label, whole[of, as_label]] for of, as_label in np.argwhere(whole).tolist()
    ]


def test_of_many_labels_the_rows_of_the_most_frequent_and_the_largest_confusions_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mistakes, "MAX_CELLS", 5)
    count = 300
    gold, predicted = labels(count, 20_000)
    whole = matrix(gold, predicted, count)
    written = cells(gold, predicted, count)
    assert len(written) < np.count_nonzero(whole)
    assert all(whole[of, as_label] == rows > 0 for of, as_label, rows in written)
    frequent = np.argsort(-whole.sum(1), kind="stable")[:60]
    assert {(of, as_label) for of, as_label, _ in written} >= {
        (of, n) for of in frequent for n in whole[of].nonzero()[0]
    }
    names = [f"c{n}" for n in range(count)]
    every = [[of, as_label, whole[of, as_label]] for of, as_label in np.argwhere(whole).tolist()]
    assert classes.confusion(names, written) == classes.confusion(names, every)
    assert classes.confused_pairs(names, written)[:5] == classes.confused_pairs(names, every)[:5]


def test_the_largest_confusions_of_rare_labels_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Label 99 has two rows, both predicted as label 98: the only confusion, besides cells of the diagonal."""
    monkeypatch.setattr(mistakes, "MAX_CELLS", 1)
    gold = np.repeat(np.arange(100), [9] * 99 + [2])
    predicted = np.where(gold == 99, 98, gold)
    written = cells(gold, predicted, 100)
    assert [99, 98, 2] in written
    assert len(written) == 61
