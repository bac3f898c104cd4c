"""Tests of the examples of labelled words."""

from __future__ import annotations

import numpy as np

from epigram.core.arrays import Ragged
from epigram.evaluation.tokens.token_metrics import examples
from epigram.evaluation.tokens.tokens import LabelledWords
from epigram.evaluation.tokens.word_predictions import Words

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
