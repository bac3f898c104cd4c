"""Labels of words by the members of an ensemble, which may divide texts into different tokens and words.

M members, W words of N texts, S labels of words.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.core.ragged import Ragged
from epigram.evaluation.averaged_words import at_temperature
from epigram.evaluation.ensemble import Blend
from epigram.evaluation.word_predictions import word_probabilities
from epigram.inference.predictor import Predictor, shift_spans
from epigram.inference.words import Word, labelled_words, word_spans
from epigram.models.ensemble import SavedEnsemble
from epigram.models.ensemble_config import WordSettings
from epigram.models.predict import Predicted
from epigram.text.tokens.alignment import PositionedTokens
from epigram.text.tokens.characters import strip

Answer = tuple[Predicted, PositionedTokens | None, list[bool]]  # of a member: predictions, tokens and truncated texts


class EnsembleWords:
    """Labels of words by the weighted mean of the members that label words.

    The words of a text are those of the tokenizer of `lead`, the member with the largest weight. A word that no member
    has read is left out. Raises DataError if a member has other labels of words.
    """

    def __init__(self, saved: SavedEnsemble, words: WordSettings, members: Mapping[str, Predictor]) -> None:
        self.labels = words.labels
        self.places = [place for place, name in enumerate(members) if name in words.members]
        names = [name for name in members if name in words.members]
        for name in names:
            if members[name].saved.frame.token_labels != self.labels:
                raise DataError(
                    f"{members[name].folder} does not have the word labels of the ensemble; restore the folder"
                )
        weights = np.array([saved.weights[name] for name in names])
        self.lead = members[names[int(weights.argmax())]]
        self.temperatures = np.array([words.members[name] for name in names])
        self.blend = Blend(weights, saved.temperature, words.temperature)

    def label(self, texts: Sequence[str], answers: Sequence[Answer]) -> list[list[Word]]:
        """Return the words of each text from the `answers` of all members of the ensemble."""
        spans = self._spans(texts)
        known = member_probabilities(spans, [answers[place] for place in self.places])
        mean = self.blend.apply_to_words(at_temperature(known, self.temperatures[:, None]))
        read = np.asarray(mean.any(-1))
        kept = Ragged.from_lengths(spans.values[read], spans.with_values(read).sums())
        return labelled_words(texts, kept, mean[read], self.labels)

    def _spans(self, texts: Sequence[str]) -> Ragged[np.int64]:
        """Return the start and the end of the words (W, 2), also of those that `lead` does not read."""
        tokens = self.lead.encoder.encode_with_positions([strip(text) for text in texts], sys.maxsize)
        return word_spans(shift_spans(tokens, texts), tokens.ids.lengths)[1]


def member_probabilities(spans: Ragged[np.int64], answers: Sequence[Answer]) -> NDArray[np.float32]:
    """Return the probabilities (W, M, S) that M models give the labels of words.

    `spans` (W, 2) are the start and the end of the words of N texts. As in the evaluation, a word has a model's
    probabilities of the first token that begins in it, and zeros if the model has read no such token.
    """
    return np.stack([_probabilities(spans, predicted, tokens) for predicted, tokens, _ in answers], axis=1)


def _probabilities(
    spans: Ragged[np.int64], predicted: Predicted, tokens: PositionedTokens | None
) -> NDArray[np.float32]:
    assert tokens is not None
    assert predicted.tokens is not None
    assert predicted.counts is not None
    read = Ragged.from_lengths(predicted.tokens, predicted.counts)
    return word_probabilities(read, tokens.ids.with_values(_word_numbers(spans, tokens)), spans.lengths)


def _word_numbers(spans: Ragged[np.int64], tokens: PositionedTokens) -> NDArray[np.int64]:
    """Return the number of the word in which each token begins, (T,); negative before the first word of a text."""
    row, start = tokens.ids.row_numbers(), tokens.spans[:, 0]
    longest = 1 + max(start.max(initial=0), spans.values.max(initial=0))  # so that texts follow one another
    begins = spans.row_numbers() * longest + spans.values[:, 0]
    return np.asarray(np.searchsorted(begins, row * longest + start, side="right") - 1 - spans.starts[row])
