"""Likelihoods of the gold labels by the members of an ensemble. M members, E independent events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Floats, Ints
from epigram.evaluation.averaged_words import SMALLEST
from epigram.evaluation.label_probabilities import LabelProbabilities, Probabilities
from epigram.evaluation.member_outputs import Gold, MemberOutputs


@dataclass(frozen=True)
class Likelihoods:
    """Likelihoods (M, E) of what is true in each event.

    `given` (M, E) is 0 for an event of which a member says nothing, and so is its likelihood. If no member says
    anything, the likelihood is `default` (E,). Both may have a single column for all events.
    """

    values: Floats
    given: Floats
    default: Floats

    def losses(self, counts: Floats) -> Floats:
        """Return the log loss (M,) of the mean of members, added `counts` (M,) times, after adding each one again."""
        given = counts @ self.given + self.given
        mean = (counts @ self.values + self.values) / np.maximum(given, 1)
        return np.asarray(-np.log(np.maximum(np.where(given > 0, mean, self.default), SMALLEST)).mean(1))


def likelihoods_of(members: MemberOutputs, gold: Gold) -> Likelihoods | None:
    """Return the likelihoods of the labels that rank the systems: those of texts, or of words if these alone count.

    There are none without rows, and none without words where these count.
    """
    if not gold.words_only:
        return of_texts(members.texts, gold.texts) if len(gold.texts) else None
    if members.words is None or gold.words is None or not len(gold.words.values):
        return None
    return of_words(members.words.values, gold.words.values)


def of_texts(members: Probabilities, labels: Ints) -> Likelihoods:
    """Return the likelihoods for probabilities (M, N, C) and the gold labels, (N,) or (N, C)."""
    if isinstance(members, LabelProbabilities):
        values = members.of_label(labels)
    else:
        values = np.where(labels > 0, members, 1 - members).reshape(members.shape[0], -1)
    return Likelihoods(values, np.ones((len(values), 1)), np.zeros(1))


def of_words(members: Floats, labels: Ints) -> Likelihoods:
    """Return the likelihoods for probabilities (T, M, S) and the gold labels (T,); label 0 is the default."""
    values = np.take_along_axis(members, labels[:, None, None].astype(np.int64), axis=-1)[..., 0].T
    return Likelihoods(values.astype(float), members.any(-1).T.astype(float), (labels == 0).astype(float))
