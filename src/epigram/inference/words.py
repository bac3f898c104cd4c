"""Predicted labels of the words of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epigram.models.predict import Predicted
from epigram.text.alignment import PositionedTokens


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
    row = tokens.ids.row_numbers()
    read = tokens.ids.positions() < predicted.counts[row]  # the model may read fewer tokens than the encoder gives
    row = row[read]
    number, spans = tokens.words[read], tokens.spans[read]
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(number, prepend=-1) != 0))
    last = np.append(first[1:], len(row)) - 1
    best = predicted.tokens.argmax(1)
    words: list[list[Word]] = [[] for _ in texts]
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        text, a, b = texts[row[begin]], int(spans[begin, 0]), int(spans[end, 1])
        label = int(best[begin])
        words[row[begin]].append(Word(text[a:b], a, b, labels[label], float(predicted.tokens[begin, label])))
    return words


def bracket_labels(text: str, words: Sequence[Word], default: str) -> str:
    """Return `text` with the words whose label is not `default` written as [word|label]."""
    for word in reversed(words):
        if word.label != default:
            text = f"{text[: word.start]}[{word.text}|{word.label}]{text[word.end :]}"
    return text
