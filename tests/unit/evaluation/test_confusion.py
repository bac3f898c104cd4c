"""Cells of a confusion matrix, distinct rows, examples of labels, confident errors, and slices of the test set."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.core.arrays import Ragged
from epigram.evaluation.metrics import intervals, mistakes
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.intervals import distinct_rows
from epigram.evaluation.metrics.mistakes import cells, most_confident_errors
from epigram.evaluation.metrics.row_scores import RowScores
from epigram.evaluation.metrics.slices import column_slices, length_slices, slices
from epigram.evaluation.tokens.token_metrics import examples
from epigram.evaluation.tokens.tokens import LabelledWords
from epigram.evaluation.tokens.word_predictions import Words
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


@pytest.mark.parametrize("most", [2**62, 10])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_, np.float64])
def test_the_rows_are_those_of_numpy_in_the_same_order(kind: type, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With codes of at most 10, they are renumbered after every column."""
    monkeypatch.setattr(intervals, "MAX_CODE", most)
    table = np.random.default_rng(0).integers(0, 4, (500, 6)).astype(kind)
    first, counts = distinct_rows(table.T)
    wanted, expected = np.unique(table, axis=0, return_counts=True)
    np.testing.assert_array_equal(table[first], wanted)
    np.testing.assert_array_equal(counts, expected)


def test_no_number_of_columns_overflows() -> None:
    """Each of 70 columns doubles the codes: without renumbering, those above 2⁶³ would fall together."""
    table = np.random.default_rng(1).integers(0, 2, (40, 70))
    first, counts = distinct_rows(table.T)
    np.testing.assert_array_equal(table[first], np.unique(table, axis=0))
    assert counts.sum() == 40


NAMES = ["O", "LOC"]


def test_a_word_has_the_label_that_most_seeds_predict() -> None:
    gold = Ragged.from_lists([[0, 1]], np.uint8)
    predicted = np.array([[1, 0], [0, 1], [0, 1]], np.uint8)  # the first seed differs from the other two
    truth = Words(names=NAMES, labels=gold, texts=[["in", "Rome"]], separator=" ")
    (found,) = examples(truth, LabelledWords(gold, predicted, NAMES), np.array([7]))
    assert [(piece.text, piece.predicted, piece.gold) for piece in found.pieces] == [
        ("in", "O", "O"),
        ("Rome", "LOC", "LOC"),
    ]


TEXTS = ["first", "second", "third"]


def test_a_missed_label_is_as_confident_as_its_absence() -> None:
    """The second text lacks its label with probability 0.9, the first with 0.6; the third has one too many, at 0.7."""
    gold, probabilities = np.array([[1, 0], [1, 0], [0, 0]]), np.array([[[0.4, 0.0], [0.1, 0.0], [0.0, 0.7]]])
    predictions = predict_labels("multi", gold, probabilities, np.full((1, 2), 0.5))
    found = most_confident_errors(predictions, ["a", "b"], np.arange(3), TEXTS, 3)
    assert [(each.text, each.gold, each.predicted) for each in found] == [
        ("second", ["a"], []),
        ("third", [], ["b"]),
        ("first", ["a"], []),
    ]
    assert [each.probability for each in found] == pytest.approx([0.9, 0.7, 0.6])


def right(correct: np.ndarray) -> RowScores:
    return RowScores(correct[None].astype(float), np.ones((1, len(correct))))


@pytest.mark.parametrize("lengths", [np.arange(4, 61), np.repeat([3, 9], 50), np.array([5, 5, 5]), np.array([0, 1])])
def test_quarters_hold_every_row_once(lengths):
    parts = length_slices(lengths)
    assert (np.sum([chosen for _, chosen in parts], axis=0) == 1).all()
    assert 1 <= len(parts) <= 4


def test_quarters_are_about_equal_and_named_by_their_bounds():
    parts = length_slices(np.arange(1, 101))
    assert [name for name, _ in parts] == [
        f"{a} to {b} characters" for a, b in ((1, 25), (26, 50), (51, 75), (76, 100))
    ]


def test_texts_of_one_length_make_one_slice():
    assert [name for name, _ in length_slices(np.full(9, 7))] == ["7 characters"]


def test_leaked_rows_are_scored_apart():
    in_train = np.arange(100) < 30
    found = slices(right(in_train), ["x"] * 100, in_train, {}, resamples=100, confidence=0.95)
    leak = {part.name: (part.rows, part.score.value) for part in found if part.kind == "leak"}
    assert leak == {"also in train": (30, 1.0), "not in train": (70, 0.0)}


def test_without_a_leak_there_is_no_leak_slice():
    found = slices(right(np.ones(8)), list("abcdefgh"), np.zeros(8, bool), {}, resamples=50, confidence=0.95)
    assert {part.kind for part in found} == {"length"}


def test_a_fully_leaked_test_set_has_no_empty_slice():
    found = slices(right(np.ones(4)), list("abcd"), np.ones(4, bool), {}, resamples=50, confidence=0.95)
    assert [part.name for part in found if part.kind == "leak"] == ["also in train"]


def test_length_is_counted_in_characters():
    found = slices(
        right(np.ones(4)), ["好", "好吃", "好吃吗", "好吃吗😀"], np.zeros(4, bool), {}, resamples=9, confidence=0.9
    )
    assert [part.name for part in found] == ["1 to 2 characters", "3 characters", "4 characters"]


def test_a_column_has_a_slice_of_each_value_and_one_of_the_rare_ones() -> None:
    """Texts of the web are right, of the app wrong, and of the nine texts of the phone and the one of a fax, one is."""
    values = ["app"] * 30 + ["web"] * 50 + ["phone"] * 9 + ["fax"] + [""] * 10
    correct = np.repeat([0, 1, 0, 1, 1], [30, 50, 9, 1, 10])
    found = slices(right(correct), ["x"] * 100, np.zeros(100, bool), {"by": values}, resamples=50, confidence=0.95)
    parts = [(part.column, part.name, part.rows, part.score.value) for part in found if part.kind == "column"]
    assert parts == [
        ("by", "web", 50, 1.0),
        ("by", "app", 30, 0.0),
        ("by", "no value", 10, 1.0),
        ("by", "2 other values", 10, 0.1),
    ]


@pytest.mark.parametrize("values", [["a"] * 50, [str(n) for n in range(50)]])
def test_a_column_of_one_value_or_of_rare_ones_has_no_slices(values: list[str]) -> None:
    assert column_slices(values) == []
