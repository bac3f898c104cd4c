"""Greedy selection of an ensemble (Caruana et al., Ensemble Selection from Libraries of Models, 2004).

The ensemble's probabilities are the weighted mean of its members' calibrated probabilities, with a temperature of its
own. The weights are chosen with replacement by the log loss on development rows. The same rows would score them too
well: their development predictions are therefore cross-fitted, that is, each part of the rows is predicted with weights
and temperature from the other parts. M members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.label_probabilities import LabelProbabilities, Probabilities, chosen, join
from epigram.evaluation.temperature import decisive_rows, fit_temperature, from_logits

CLIP = 1e-7  # smallest probability and smallest distance from 1


@dataclass(frozen=True)
class Blend:
    """Weights of the members (M,), which sum to 1, and the temperature of their mean."""

    weights: Floats
    temperature: float

    def apply(self, probabilities: Floats, *, multi: bool) -> Floats:
        """Return the ensemble's probabilities (N, C) from those of its members (M, N, C)."""
        return from_logits(_log_mean(probabilities, self.weights, multi=multi) / self.temperature, multi=multi)

    def combine(self, members: Probabilities) -> Probabilities:
        """Return the ensemble's probabilities (1, N, C) from those of its members (M, N, C)."""
        if isinstance(members, LabelProbabilities):
            return members.combined(lambda known: self.apply(known, multi=False))
        return self.apply(members, multi=True)[None]


def fit_blend(members: Probabilities, labels: Ints, rounds: int) -> Blend:
    """Return the blend for members' probabilities (M, N, C) of rows with the gold `labels`, (N,) or (N, C).

    Without rows, the weights are equal.
    """
    count = members.shape[0]
    if not len(labels):
        return Blend(np.full(count, 1 / count), 1.0)
    some = decisive_rows(len(labels))
    if isinstance(members, LabelProbabilities):
        likelihoods, known = members.of_label(labels), members.rows(some).dense()
        gold, multi = labels[some, None] == np.arange(members.classes), False
    else:
        likelihoods, known = np.where(labels > 0, members, 1 - members).reshape(count, -1), members[:, some]
        gold, multi = labels[some] > 0, True
    weights = select(likelihoods, rounds)
    return Blend(weights, fit_temperature(_log_mean(known, weights, multi=multi), gold, multi=multi))


def select(likelihoods: Floats, rounds: int) -> Floats:
    """Return the weights (M,) of members by their likelihoods (M, E) of E independent events.

    In each round the member is added, with replacement, whose addition gives the mean likelihood with the lowest log
    loss; of equal ones, the first. The weights are the shares of the additions up to the round with the lowest loss.
    """
    total, counts = np.zeros(likelihoods.shape[1]), np.zeros(len(likelihoods))
    best, kept = np.inf, counts
    for size in range(1, rounds + 1):
        losses = -np.log(np.maximum((total + likelihoods) / size, CLIP)).mean(1)
        member = int(losses.argmin())
        total, counts[member] = total + likelihoods[member], counts[member] + 1
        if losses[member] < best - 1e-12:
            best, kept = float(losses[member]), counts.copy()
    return np.asarray(kept / kept.sum())


def cross_fit(
    members: Probabilities, labels: Ints, part: Ints, usable: Bools, rounds: int, blended: Probabilities | None = None
) -> Probabilities:
    """Return the probabilities (1, N, C) of each row by the blend of the usable rows (N,) of the other parts.

    Those of the `members` are (M, N, C), and `part` is (N,). A part whose others have no usable row gets equal weights.
    `blended` are the probabilities that are combined, if these are other ones.
    """
    fitted, places = [], []
    for number in np.unique(part):
        held_out = part == number
        rows = ~held_out & usable
        blend = fit_blend(chosen(members, rows), labels[rows], rounds)
        fitted.append(blend.combine(chosen(members if blended is None else blended, held_out)))
        places.append(np.flatnonzero(held_out))
    return chosen(join(fitted, axis=1), np.argsort(np.concatenate(places)))


def parts_of(labels: Ints, parts: int) -> Ints:
    """Return the part (N,) of each row: of almost equal size, and stratified by label if a row has one label."""
    order = np.arange(len(labels)) if labels.ndim == 2 else np.argsort(labels, kind="stable")
    part = np.empty(len(labels), dtype=np.int64)
    part[order] = np.arange(len(labels)) % min(parts, len(labels))
    return part


def _log_mean(probabilities: Floats, weights: Floats, *, multi: bool) -> Floats:
    """Return the logits (N, C) of the weighted mean of probabilities (M, N, C)."""
    mean = np.clip(np.tensordot(weights, probabilities.astype(float), 1), CLIP, 1 - CLIP)
    return np.asarray(np.log(mean) - np.log1p(-mean) if multi else np.log(mean))
