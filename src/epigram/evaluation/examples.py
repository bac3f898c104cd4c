"""A few test rows with their words labelled; the same rows for every system."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from epigram.evaluation.arrays import Ints
from epigram.evaluation.results import Example, Piece
from epigram.evaluation.tokens import LabelledWords
from epigram.evaluation.word_predictions import Words

EXAMPLES = 8
MAX_WORDS = 40  # maximum number of words of a shown row
MAX_WORD_CHARACTERS = 40  # maximum number of characters shown of a word


def examples(truth: Words, labelled: LabelledWords, rows: Ints) -> list[Example]:
    """Return rows of at most MAX_WORDS words, evenly spaced among those with a marked word."""
    counts = labelled.gold.lengths
    marked = labelled.words.gold
    fit = np.flatnonzero((counts <= MAX_WORDS) & (marked > 0))
    chosen = fit[np.linspace(0, len(fit) - 1, min(EXAMPLES, len(fit))).astype(int)]
    return [Example(row=int(rows[n]), pieces=_pieces(truth, labelled, n)) for n in chosen.tolist()]


def _pieces(truth: Words, labelled: LabelledWords, n: int) -> list[Piece]:
    part = slice(*labelled.gold.offsets[n : n + 2])
    votes = labelled.predicted[:, part, None] == np.arange(len(truth.names))  # (K, words, S)
    pairs = zip(votes.sum(0).argmax(1).tolist(), labelled.gold.values[part].tolist(), truth.texts[n], strict=True)
    return [
        Piece(
            text=truth.separator.join(text[:MAX_WORD_CHARACTERS] for *_, text in run),
            predicted=truth.names[predicted],
            gold=truth.names[gold],
        )
        for (predicted, gold), run in groupby(pairs, key=lambda word: word[:2])
    ]
