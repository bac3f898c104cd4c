"""The tokens that a model reads of one text, and the sums of their scores over words.

Shapes: L tokens with prompt and special tokens, T tokens of the text, W words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from epigram.core.arrays import Integers
from epigram.inference.explanations.words import Scores, sum_by_word
from epigram.inference.predictors.predictor import Predictor, shift_spans
from epigram.models.batches import TextBatches
from epigram.nn.layers.types import Tokens
from epigram.text.tokens.characters import strip


class WordScores(NamedTuple):
    """Scores of the words of a text (W,), and the score without them, if the method has one."""

    words: Scores
    base: float | None


class ReadText(NamedTuple):
    """One text as a batch, with the start and end (T, 2) of its own tokens, and how many tokens are `before` them."""

    batches: TextBatches
    spans: Integers
    before: int

    @classmethod
    def of(cls, predictor: Predictor, text: str) -> ReadText:
        """Return `text` as the model of `predictor` reads it."""
        encoded = predictor.encoder.encode_with_positions([strip(text)], predictor.room)
        tokens = shift_spans(encoded, [text])
        return cls(predictor.batches([text]), tokens.spans, len(predictor.saved.frame.prefix_ids))

    @property
    def own(self) -> slice:
        """The positions of the text's own tokens among all tokens."""
        return slice(self.before, self.before + len(self.spans))

    def tokens(self, copies: int = 1) -> Tokens:
        """Return a batch with the text so many times."""
        return self.batches.gather(np.zeros(copies, np.int64))

    def by_word(self, scores: Scores, words: Integers, base: float) -> WordScores:
        """Return the sums of the `scores` (L,) for the `words` (W, 2); scores of a prompt are added to `base`."""
        own = scores[self.own]
        return WordScores(sum_by_word(own, self.spans, words), base + float(scores.sum() - own.sum()))
