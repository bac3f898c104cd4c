"""Tests of the words of an ensemble whose members divide texts into other words: probabilities found by position."""

from __future__ import annotations

import numpy as np

from epigram.core.ragged import Ragged
from epigram.inference.ensemble_words import Answer, member_probabilities
from epigram.models.predict import Predicted
from epigram.text.tokens.alignment import PositionedTokens


def answered(texts: list[list[tuple[int, int]]], read: list[int]) -> Answer:
    """Return what a model says that reads the first tokens of each text: 1 for the label with the token's number."""
    lengths = np.array([len(spans) for spans in texts])
    ids = Ragged.from_lengths(np.zeros(lengths.sum(), np.int32), lengths)
    spans = np.array([span for text in texts for span in text])
    said = np.concatenate([np.eye(4, dtype=np.float32)[:count] for count in read])
    predicted = Predicted(np.zeros((len(texts), 2), np.float32), None, tokens=said, counts=np.array(read))
    return predicted, PositionedTokens(ids, 0, ids.positions().astype(np.int32), spans), [False] * len(texts)


def labels(words: list[list[tuple[int, int]]], answer: Answer) -> list[int | None]:
    """Return the number of the token that each word has the probabilities of; None if it has zeros."""
    spans = Ragged.from_lengths(
        np.array([span for row in words for span in row]), np.array([len(row) for row in words])
    )
    found = member_probabilities(spans, [answer])[:, 0]
    return [int(p.argmax()) if p.any() else None for p in found]


CHARACTERS = [[(0, 1), (1, 2), (2, 3)], [(0, 1), (2, 3)]]  # "abc" and "d e"
PAIRS = [[(0, 2), (2, 3)], [(0, 1), (2, 3)]]  # "ab", "c" and "d", "e"


def test_a_word_has_the_first_token_that_begins_in_it() -> None:
    assert labels(PAIRS, answered(CHARACTERS, [3, 2])) == [0, 2, 0, 1]


def test_a_word_in_which_no_token_begins_has_zeros() -> None:
    assert labels(CHARACTERS, answered(PAIRS, [2, 2])) == [0, None, 1, 0, 1]


def test_a_word_that_was_not_read_has_zeros_and_no_token_of_the_next_text() -> None:
    assert labels(CHARACTERS, answered(CHARACTERS, [1, 2])) == [0, None, None, 0, 1]
    assert labels(PAIRS, answered(CHARACTERS, [2, 1])) == [0, None, 0, None]
    assert labels([[(1, 3)], [(2, 3)]], answered(CHARACTERS, [3, 2])) == [1, 1]
