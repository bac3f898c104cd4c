"""Greedy selection of an ensemble (Caruana et al., Ensemble Selection from Libraries of Models, 2004).

The ensemble's probabilities are the weighted mean of its members' calibrated probabilities, with a temperature of its
own. The weights are chosen with replacement by the log loss on development rows. The same rows would score them too
well: their development predictions are therefore cross-fitted, that is, each part of the rows is predicted with weights
and temperature from the other parts. M members; their probabilities (N, C) may be memory-mapped, and only the members
with a weight are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.metrics.metric_rows import SMALLEST, likelihoods
from epigram.evaluation.tuning.temperature import decisive_rows, fit_temperature, from_logits, to_logits


@dataclass(frozen=True)
class Blend:
    """Weights of the members (M,), which sum to 1, and the temperature of their mean."""

    weights: Floats
    temperature: float

    def apply(self, members: Sequence[Floats], *, multi: bool, rows: slice | Ints | Bools = slice(None)) -> Floats:
        """Return the ensemble's probabilities (n, C) for some `rows` from the probabilities (N, C) of its members."""
        return from_logits(_mean_logits(members, self.weights, rows, multi=multi) / self.temperature, multi=multi)


def fit_blend(members: Sequence[Floats], labels: Ints, rows: Ints | Bools, rounds: int) -> Blend:
    """Return the blend of the members for `rows`, by their gold labels; without any rows, the weights are equal.

    `labels` of all rows are (N,), or (N, C) if a text may have several.
    """
    places = np.arange(len(labels))[rows]
    if not len(places):
        return Blend(np.full(len(members), 1 / len(members)), 1.0)
    weights = select(np.stack([likelihoods(each[None], labels)[0] for each in members])[:, rows], rounds)
    classes, multi = members[0].shape[1], labels.ndim == 2
    some = places[decisive_rows(len(places), classes)]
    gold = labels[some] > 0 if multi else labels[some, None] == np.arange(classes)
    return Blend(weights, fit_temperature(_mean_logits(members, weights, some, multi=multi), gold, multi=multi))


def select(likelihoods: Floats, rounds: int) -> Floats:
    """Return the weights (M,) of members by the log loss of the likelihoods (M, …) of independent events.

    In each round the member is added, with replacement, whose addition gives the mean likelihoods with the lowest log
    loss; of equal ones, the first. The weights are the shares of the additions up to the round with the lowest loss.
    """
    known = likelihoods.reshape(len(likelihoods), -1)
    counts = np.zeros(len(known))
    best, kept = np.inf, counts
    for number in range(rounds):
        mean = (counts @ known + known) / (number + 1)
        losses = -np.log(np.maximum(mean, SMALLEST)).mean(1)
        member = int(losses.argmin())
        counts[member] += 1
        if losses[member] < best - 1e-12:
            best, kept = float(losses[member]), counts.copy()
    return np.asarray(kept / kept.sum())


def cross_fit(members: Sequence[Floats], labels: Ints, part: Ints, usable: Bools, rounds: int) -> Floats:
    """Return probabilities (N, C) of each row, by the blend that is fitted to the usable rows (N,) of all other parts.

    `part` is (N,). The weights are equal if all other parts have no usable row.
    """
    out = np.empty(members[0].shape, np.float32)
    for number in np.unique(part):
        held_out = part == number
        blend = fit_blend(members, labels, ~held_out & usable, rounds)
        out[held_out] = blend.apply(members, multi=labels.ndim == 2, rows=held_out)
    return out


def parts_of(labels: Ints, parts: int, groups: Ints | None = None) -> Ints:
    """Return the part (N,) of each row: of almost equal size, and stratified by label if a row has one label.

    Rows with the same number in `groups` (N,) are in one part, and its size is then the number of its groups. The first
    row of a group decides.
    """
    rows = np.arange(len(labels)) if groups is None else groups
    _, first, group = np.unique(rows, return_index=True, return_inverse=True)
    order = np.lexsort((first,) if labels.ndim == 2 else (first, labels[first]))
    part = np.empty(len(first), dtype=np.int64)
    part[order] = np.arange(len(first)) % parts
    return np.asarray(part[group])


def _mean_logits(members: Sequence[Floats], weights: Floats, rows: slice | Ints | Bools, *, multi: bool) -> Floats:
    """Return the logits (n, C) of the weighted mean of the members' probabilities (N, C) for some rows."""
    mean = np.zeros(members[0][rows].shape)
    for weight, each in zip(weights, members, strict=True):
        if weight:
            mean += np.multiply(each[rows], weight, dtype=np.float64)
    return to_logits(mean, multi=multi, smallest=SMALLEST)
