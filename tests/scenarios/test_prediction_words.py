"""Words assembled from tokens labeled by hand: which token gives a word its label, and the position of each word."""

from __future__ import annotations

import numpy as np

from epigram.core.arrays import Ragged
from epigram.inference.predictors.base_predictor import Word, bracket_labels, words_of
from epigram.models.predict import Predicted
from epigram.text.tokens.alignment import PositionedTokens

LABELS = ["O", "PER", "LOC"]
TEXTS = ["Ann met Bob", "in Rome"]
# Tokens: An|n met Bo|b, in Ro|me. The tokens of a word have different labels, and the first token decides.
SPANS = np.array([[0, 2], [2, 3], [4, 7], [8, 10], [10, 11], [0, 2], [3, 5], [5, 7]])
NUMBERS = np.array([0, 0, 1, 2, 2, 0, 1, 1])
OFFSETS = np.array([0, 5, 8])
SAID = np.array(
    [
        [0.1, 0.7, 0.2],  # An: PER
        [0.0, 0.1, 0.9],
        [0.8, 0.1, 0.1],  # met: O
        [0.2, 0.6, 0.2],  # Bo: PER
        [0.9, 0.1, 0.0],
        [0.5, 0.3, 0.2],  # in: O
        [0.3, 0.2, 0.5],  # Ro: LOC
        [0.1, 0.9, 0.0],
    ],
    np.float32,
)


def located() -> PositionedTokens:
    return PositionedTokens(Ragged(np.zeros(8, np.int32), OFFSETS), 0, NUMBERS.astype(np.int32), SPANS)


def predicted(said: np.ndarray, counts: list[int]) -> Predicted:
    return Predicted(np.zeros((2, 2), np.float32), None, tokens=said, counts=np.array(counts))


def test_a_word_has_the_label_of_its_first_token_and_ends_with_its_last() -> None:
    first, second = words_of(TEXTS, located(), predicted(SAID, [5, 3]), LABELS)
    found = [(word.text, word.start, word.end, word.label) for word in first]
    assert found == [("Ann", 0, 3, "PER"), ("met", 4, 7, "O"), ("Bob", 8, 11, "PER")]
    assert [(word.text, word.start, word.end, word.label) for word in second] == [
        ("in", 0, 2, "O"),
        ("Rome", 3, 7, "LOC"),
    ]
    np.testing.assert_allclose([word.probability for word in (*first, *second)], [0.7, 0.8, 0.6, 0.5, 0.5])


def test_tokens_that_the_model_did_not_read_have_no_word() -> None:
    """The model read four tokens of the first text and one of the second: Bob is truncated and Rome is missing."""
    read = np.concatenate([SAID[:4], SAID[5:6]])
    first, second = words_of(TEXTS, located(), predicted(read, [4, 1]), LABELS)
    assert [(word.text, word.label) for word in first] == [("Ann", "PER"), ("met", "O"), ("Bo", "PER")]
    assert [(word.text, word.label) for word in second] == [("in", "O")]


def test_all_words_but_those_of_the_default_label_are_marked_in_their_places() -> None:
    words = [Word("Ann", 0, 3, "PER", 0.7), Word("met", 4, 7, "O", 0.8), Word("Bob", 8, 11, "LOC", 0.6)]
    assert bracket_labels("Ann met Bob", words, "O") == "[Ann|PER] met [Bob|LOC]"
    assert bracket_labels("Ann met Bob", [], "O") == "Ann met Bob"
