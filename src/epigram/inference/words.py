"""Predicted labels of the words of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.ragged import Ragged
from epigram.models.predict import Predicted
from epigram.text.tokens.alignment import PositionedTokens


@dataclass(frozen=True)
class Word:
    """A word of a text, from character `start` to `end`, with its most likely label."""

    text: str
    start: int
    end: int
    label: str
    probability: float


def words_of(
    texts: Sequence[str], tokens: PositionedTokens, predicted: Predicted, labels: Sequence[str]
) -> list[list[Word]]:
    """Return the words of each text; a word gets the label of its first token and ends where its last token ends."""
    assert predicted.tokens is not None
    assert predicted.counts is not None
    first, spans = word_spans(tokens, predicted.counts)
    return labelled_words(texts, spans, predicted.tokens[first], labels)


def word_spans(tokens: PositionedTokens, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ragged[np.int64]]:
    """Return the words of the first `counts` (N,) tokens of each text, which a model may read alone.

    These are the number of the first token of each word among all tokens read, (W,), and the start and the end of the
    words, (W, 2), as N rows.
    """
    row = tokens.ids.row_numbers()
    read = tokens.ids.positions() < counts[row]
    row, number, spans = row[read], tokens.words[read], tokens.spans[read]
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(number, prepend=-1) != 0))
    last = np.append(first[1:], len(row)) - 1
    bounds = np.stack([spans[first, 0], spans[last, 1]], axis=1)
    return first, Ragged.from_lengths(bounds, np.bincount(row[first], minlength=len(tokens.ids)))


def labelled_words(
    texts: Sequence[str], spans: Ragged[np.int64], probabilities: NDArray[Any], labels: Sequence[str]
) -> list[list[Word]]:
    """Return the words of each text, with their `spans` (W, 2) and their most likely labels; `probabilities` (W, S)."""
    best = probabilities.argmax(1)
    words: list[list[Word]] = [[] for _ in texts]
    columns = (spans.row_numbers(), spans.values, best, probabilities.max(1))
    for row, (start, end), label, probability in zip(*(column.tolist() for column in columns), strict=True):
        words[row].append(Word(texts[row][start:end], start, end, labels[label], probability))
    return words


def bracket_labels(text: str, words: Sequence[Word], default: str) -> str:
    """Return `text` with the words whose label is not `default` written as [word|label]."""
    for word in reversed(words):
        if word.label != default:
            text = f"{text[: word.start]}[{word.text}|{word.label}]{text[word.end :]}"
    return text
