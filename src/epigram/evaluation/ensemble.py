"""Greedy selection of an ensemble (Caruana et al., Ensemble Selection from Libraries of Models, 2004).

The ensemble's probabilities are the weighted mean of its members' calibrated probabilities, with a temperature of its
own; those of words have the same weights and another temperature. The weights are chosen with replacement by the log
loss on development rows, per text, or per word if words alone have labels. The same rows would score them too well:
their development predictions are therefore cross-fitted, that is, each part of the rows is predicted with weights and
temperatures from the other parts. M members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.averaged_words import SMALLEST, at_temperature, fit_word_temperature, weighted_mean
from epigram.evaluation.label_probabilities import LabelProbabilities, Probabilities
from epigram.evaluation.likelihoods import Likelihoods, likelihoods_of
from epigram.evaluation.member_outputs import Gold, MemberOutputs, join_rows
from epigram.evaluation.temperature import decisive_rows, fit_temperature, from_logits


@dataclass(frozen=True)
class Blend:
    """Weights of the members (M,), which sum to 1, and the temperatures of their means for texts and for words."""

    weights: Floats
    temperature: float
    word_temperature: float = 1.0

    def apply(self, probabilities: Floats, *, multi: bool) -> Floats:
        """Return the ensemble's probabilities (N, C) from those of its members (M, N, C)."""
        return from_logits(_log_mean(probabilities, self.weights, multi=multi) / self.temperature, multi=multi)

    def apply_to_words(self, probabilities: Floats) -> Floats:
        """Return the ensemble's probabilities (T, S) of words from those of its members (T, M, S)."""
        return at_temperature(weighted_mean(probabilities, self.weights), self.word_temperature)

    def combine(self, members: MemberOutputs) -> MemberOutputs:
        """Return the outputs of the ensemble, as the only member, from those of its members."""
        texts: Probabilities
        if isinstance(members.texts, LabelProbabilities):
            texts = members.texts.combined(lambda known: self.apply(known, multi=False))
        else:
            texts = self.apply(members.texts, multi=True)[None]
        if members.words is None:
            return MemberOutputs(texts)
        return MemberOutputs(texts, members.words.with_values(self.apply_to_words(members.words.values)[:, None]))


def fit_blend(members: MemberOutputs, gold: Gold, rounds: int) -> Blend:
    """Return the blend of the members' outputs for rows with these gold labels; without any, the weights are equal."""
    likelihoods, count = likelihoods_of(members, gold), members.texts.shape[0]
    if likelihoods is None:
        return Blend(np.full(count, 1 / count), 1.0)
    weights = select(likelihoods, rounds)
    blend = Blend(weights, _text_temperature(members.texts, gold.texts, weights))
    if members.words is None or gold.words is None:
        return blend
    mean = weighted_mean(members.words.values, weights)
    return replace(blend, word_temperature=fit_word_temperature(mean, gold.words.values))


def _text_temperature(members: Probabilities, labels: Ints, weights: Floats) -> float:
    """Return the temperature of the weighted mean of probabilities (M, N, C) for the gold labels, (N,) or (N, C)."""
    some = decisive_rows(len(labels))
    if isinstance(members, LabelProbabilities):
        known, multi = members.rows(some).dense(), False
        gold = labels[some, None] == np.arange(members.classes)
    else:
        known, multi, gold = members[:, some], True, labels[some] > 0
    return fit_temperature(_log_mean(known, weights, multi=multi), gold, multi=multi)


def select(likelihoods: Likelihoods, rounds: int) -> Floats:
    """Return the weights (M,) of members by the log loss.

    In each round the member is added, with replacement, whose addition gives the mean likelihoods with the lowest log
    loss; of equal ones, the first. The weights are the shares of the additions up to the round with the lowest loss.
    """
    counts = np.zeros(len(likelihoods.values))
    best, kept = np.inf, counts
    for _ in range(rounds):
        losses = likelihoods.losses(counts)
        member = int(losses.argmin())
        counts[member] += 1
        if losses[member] < best - 1e-12:
            best, kept = float(losses[member]), counts.copy()
    return np.asarray(kept / kept.sum())


def cross_fit(members: MemberOutputs, gold: Gold, part: Ints, usable: Bools, rounds: int) -> MemberOutputs:
    """Return the outputs, as those of one member, for each row by the blend of the usable rows (N,) of the other parts.

    `part` is (N,). A part whose others have no usable row gets equal weights.
    """
    fitted, places = [], []
    for number in np.unique(part):
        held_out = part == number
        rows = ~held_out & usable
        blend = fit_blend(members.rows(rows), gold.rows(rows), rounds)
        fitted.append(blend.combine(members.rows(held_out)))
        places.append(np.flatnonzero(held_out))
    return join_rows(fitted).rows(np.argsort(np.concatenate(places)))


def parts_of(labels: Ints, parts: int, groups: Ints | None = None) -> Ints:
    """Return the part (N,) of each row: of almost equal size, and stratified by label if a row has one label.

    Rows with the same number in `groups` (N,) are in one part, and its size is then the number of its groups. The first
    row of a group decides.
    """
    rows = np.arange(len(labels)) if groups is None else groups
    _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    order = np.lexsort((first,) if labels.ndim == 2 else (first, labels[first]))
    part = np.empty(len(first), dtype=np.int64)
    part[order] = np.arange(len(first)) % min(parts, len(first))
    return np.asarray(part[group])


def _log_mean(probabilities: Floats, weights: Floats, *, multi: bool) -> Floats:
    """Return the logits (N, C) of the weighted mean of probabilities (M, N, C)."""
    mean = np.clip(np.tensordot(weights, probabilities.astype(float), 1), SMALLEST, 1 - SMALLEST)
    return np.asarray(np.log(mean) - np.log1p(-mean) if multi else np.log(mean))
