"""What the members of an ensemble predict for the rows of a split, and the gold labels. M members, N rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epigram.core.ragged import Ragged
from epigram.evaluation.arrays import Bools, Ints
from epigram.evaluation.averaged_words import at_temperature, fit_word_temperature
from epigram.evaluation.label_probabilities import Probabilities, chosen, join, of_seed
from epigram.evaluation.results import Evaluation
from epigram.evaluation.stored_probabilities import SplitName, probabilities_of


@dataclass(frozen=True)
class MemberOutputs:
    """Probabilities of the texts (M, N, C), and those of their words (T, M, S) as N rows; None if nobody labels words.

    A member has zeros for a word that it did not read, and for all words if it labels none.
    """

    texts: Probabilities
    words: Ragged[Any] | None = None

    def rows(self, rows: Ints | Bools) -> MemberOutputs:
        """Return only some rows, by number or by flag."""
        return MemberOutputs(chosen(self.texts, rows), None if self.words is None else self.words[rows])

    def without(self, member: int) -> MemberOutputs:
        """Return the outputs of all members but one."""
        others = [n for n in range(self.texts.shape[0]) if n != member]
        texts, words = join([of_seed(self.texts, n) for n in others], axis=0), self.words
        return MemberOutputs(texts, None if words is None else words.with_values(words.values[:, others]))

    def word_temperatures(self, gold: Gold) -> list[float]:
        """Return the temperature of each member's word probabilities by these gold labels; 1 if it labels no words."""
        if self.words is None or gold.words is None:
            return [1.0] * self.texts.shape[0]
        words, labels = self.words.values, gold.words.values
        return [fit_word_temperature(words[:, n], labels) for n in range(words.shape[1])]

    def calibrated(self, temperatures: Sequence[float]) -> MemberOutputs:
        """Return the outputs with these temperatures (M) of the word probabilities; those of texts are calibrated."""
        if self.words is None:
            return self
        words = self.words.values
        values = [at_temperature(words[:, n], each).astype(np.float32) for n, each in enumerate(temperatures)]
        return MemberOutputs(self.texts, self.words.with_values(np.stack(values, axis=1)))


def join_rows(parts: Sequence[MemberOutputs]) -> MemberOutputs:
    """Return the rows of all `parts`, which have the same members."""
    words = [part.words for part in parts if part.words is not None]
    return MemberOutputs(join([part.texts for part in parts], axis=1), Ragged.concatenate(words) if words else None)


@dataclass(frozen=True)
class Gold:
    """Gold labels of N rows: of the texts, (N,) or (N, C), and of their words, if these have labels.

    `words_only`: the labels of the texts are inferred from those of the words, which alone count.
    """

    texts: Ints
    words: Ragged[Any] | None = None
    words_only: bool = False

    def rows(self, rows: Ints | Bools) -> Gold:
        """Return only some rows, by number or by flag."""
        return Gold(self.texts[rows], None if self.words is None else self.words[rows], self.words_only)


def labels_words(evaluation: Evaluation) -> bool:
    """Return whether the evaluation has probabilities of words."""
    return evaluation.predictions.dev_word_probabilities is not None


def outputs_of(systems: Sequence[Evaluation], split: SplitName, number: int) -> MemberOutputs:
    """Return the outputs of the systems' models of the seed at place `number`, before the calibration of words."""
    texts = join([of_seed(probabilities_of(each, split), number) for each in systems], axis=0)
    stored = [vars(each.predictions) for each in systems]
    labelled = [known[f"{split}_word_probabilities"] for known in stored]
    if all(each is None for each in labelled):
        return MemberOutputs(texts)
    none = np.zeros_like(next(each[number] for each in labelled if each is not None))
    words = np.stack([none if each is None else each[number] for each in labelled], axis=1)
    offsets = np.asarray(stored[0][f"{split}_word_offsets"], np.int64)
    return MemberOutputs(texts, Ragged(words, offsets))


def gold_of(evaluation: Evaluation) -> Gold:
    """Return the gold labels of the development rows."""
    known = evaluation.predictions
    words = None
    if known.dev_word_labels is not None and known.dev_word_offsets is not None:
        words = Ragged(known.dev_word_labels, np.asarray(known.dev_word_offsets, np.int64))
    return Gold(known.dev_labels, words, evaluation.metrics.score == "token_f1")
