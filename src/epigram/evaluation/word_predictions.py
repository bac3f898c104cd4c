"""Conversion of a model's token predictions to predictions for the words of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Words:
    """Gold labels of the words of a split: row n has the words from `offsets[n]` to `offsets[n + 1]`."""

    names: Sequence[str]  # S labels, the default one first
    labels: Ints  # (T,) label numbers
    offsets: Ints  # (N + 1,)
    texts: Sequence[Sequence[str]]  # N rows of words
    separator: str  # separator of two words of a text


def word_predictions(
    tokens: Floats, counts: Ints, *, token_offsets: Ints, token_words: Ints, word_offsets: Ints
) -> Ints:
    """Return label numbers (T,) of the words of N rows; a word that the model did not read gets the default label.

    `tokens` (Σ counts, S) are the probabilities of the first `counts` (N,) tokens of each row. Row n has the tokens
    from `token_offsets[n]` to `token_offsets[n + 1]`, and `token_words` is each token's word number within its row. A
    word gets the most likely label of its first token.
    """
    row = np.repeat(np.arange(len(counts)), np.diff(token_offsets))
    position = np.arange(len(token_words)) - token_offsets[row]
    first = (position == 0) | (np.diff(token_words, prepend=-1) != 0)
    # A row without gold labels has no words.
    was_read = first & (position < counts[row]) & (token_words >= 0) & (token_words < np.diff(word_offsets)[row])
    predicted = np.zeros(word_offsets[-1], dtype=np.min_scalar_type(tokens.shape[1] - 1))
    starts = np.cumsum(counts) - counts
    predicted[(word_offsets[row] + token_words)[was_read]] = tokens[(starts[row] + position)[was_read]].argmax(1)
    return predicted
