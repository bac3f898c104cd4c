"""Conversion of a model's token probabilities to probabilities of the corpus's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.evaluation.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Words:
    """Gold labels of the words of a split."""

    names: Sequence[str]  # S labels, the default one first
    labels: Ragged[Any]  # label numbers of the words of N rows
    texts: Sequence[Sequence[str]]  # N rows of words
    separator: str  # separator of two words of a text


def word_probabilities(probabilities: Ragged[Any], numbers: Ragged[Any], counts: Ints) -> NDArray[np.float32]:
    """Return probabilities (T, S) of the labels of the words of N rows; zeros for a word that the model did not read.

    `probabilities` (…, S) belong to the first tokens of each row. `numbers` is the word number of every token of the
    row, and `counts` (N,) the number of words of each row. A word has the probabilities of its first token.
    """
    row, position, number = numbers.row_numbers(), numbers.positions(), np.asarray(numbers.values)
    first = (position == 0) | (np.diff(number, prepend=-1) != 0)
    # A row without gold labels has no words.
    was_read = first & (position < probabilities.lengths[row]) & (number >= 0) & (number < counts[row])
    words = Ragged.from_lengths(np.zeros((counts.sum(), probabilities.values.shape[1]), np.float32), counts)
    token = (probabilities.starts[row] + position)[was_read]
    words.values[(words.starts[row] + number)[was_read]] = probabilities.values[token]
    return words.values


def most_likely(probabilities: Floats) -> Ints:
    """Return the label numbers (…) of words with probabilities (…, S); a word with zeros gets the default label, 0."""
    return np.asarray(probabilities.argmax(-1), np.min_scalar_type(probabilities.shape[-1] - 1))
