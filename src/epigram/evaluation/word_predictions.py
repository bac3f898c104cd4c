"""Conversion of a model's token predictions to predictions for the words of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epigram.core.ragged import Ragged
from epigram.evaluation.arrays import Ints


@dataclass(frozen=True, kw_only=True)
class Words:
    """Gold labels of the words of a split."""

    names: Sequence[str]  # S labels, the default one first
    labels: Ragged[Any]  # label numbers of the words of N rows
    texts: Sequence[Sequence[str]]  # N rows of words
    separator: str  # separator of two words of a text


def word_predictions(probabilities: Ragged[Any], numbers: Ragged[Any], counts: Ints) -> Ints:
    """Return label numbers (T,) of the words of N rows; a word that the model did not read gets the default label.

    `probabilities` (…, S) are those of the first tokens of each row, `numbers` the word number of every token of the
    row, and `counts` (N,) the number of words of each row. A word gets the most likely label of its first token.
    """
    row, position, number = numbers.row_numbers(), numbers.positions(), np.asarray(numbers.values)
    first = (position == 0) | (np.diff(number, prepend=-1) != 0)
    # A row without gold labels has no words.
    was_read = first & (position < probabilities.lengths[row]) & (number >= 0) & (number < counts[row])
    words = Ragged.from_lengths(np.zeros(counts.sum(), np.min_scalar_type(probabilities.values.shape[1] - 1)), counts)
    token = (probabilities.starts[row] + position)[was_read]
    words.values[(words.starts[row] + number)[was_read]] = probabilities.values[token].argmax(1)
    return words.values
