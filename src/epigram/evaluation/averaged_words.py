"""Weighted means of the probabilities that the members of an ensemble give the labels of words.

A member has zeros for a word that it did not read, and for all words if it labels none: the mean is then that of the
other members. A word that no member labels keeps zeros and gets the default label. M members, T words, S labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, Ints, ratio
from epigram.evaluation.temperature import decisive_rows, fit_temperature

SMALLEST = 1e-7  # probability of which a logarithm is computed


def weighted_mean(words: Floats, weights: Floats) -> Floats:
    """Return the mean (T, S) of the members' probabilities (T, M, S), by the weights (M,)."""
    labelled = words.any(-1) @ weights
    return ratio(np.einsum("tms,m->ts", words, weights), labelled[:, None])


def at_temperature(probabilities: Floats, temperature: float | NDArray[Any]) -> Floats:
    """Return probabilities (..., S) after dividing their logits by the temperature (Guo et al., 2017, Eq. 9).

    A probability of 0, to which half precision rounds small ones, is SMALLEST, unless all of a word are.
    """
    known = np.where(probabilities.any(-1, keepdims=True), np.maximum(probabilities, SMALLEST), 0.0)
    powers = ratio(known, known.max(-1, keepdims=True)) ** (1 / np.asarray(temperature))
    return ratio(powers, powers.sum(-1, keepdims=True))


def fit_word_temperature(probabilities: Floats, labels: Ints) -> float:
    """Return the temperature of probabilities (T, S) for the gold `labels` (T,); 1 if no word is labelled.

    Words with zeros have the same loss at every temperature.
    """
    some = decisive_rows(len(labels))
    logits = np.log(np.maximum(probabilities[some].astype(float), SMALLEST))
    return fit_temperature(logits, labels[some, None] == np.arange(probabilities.shape[-1]), multi=False)
