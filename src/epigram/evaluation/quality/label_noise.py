"""Suspected wrong labels, by confident learning on out-of-fold probabilities.

Northcutt, Jiang and Chuang, Confident Learning: Estimating Uncertainty in Dataset Labels, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints, ratio

MOST_CONFIDENT = 0.1  # share of the predictions whose disagreements are taken for wrong labels
FEWEST = 20  # rows in that share


@dataclass(frozen=True)
class Suspects:
    """Rows whose label is suspected to be wrong, the most suspicious first; each array is (S,).

    `margin` is p(likely label) − p(given label).
    """

    rows: Ints
    given: Ints
    likely: Ints
    margin: Floats


def find_suspects(probabilities: Floats, labels: Ints) -> Suspects:
    """Return the suspects of N rows, ranked by margin; of equal margins, the first row is first.

    `probabilities` (N, C) are predictions of models that were not trained on the row, `labels` (N,) the given labels.
    """
    rows = np.flatnonzero(_prune_by_noise_rate(probabilities, labels) & (probabilities.argmax(1) != labels))
    given, likely = labels[rows], probabilities[rows].argmax(1)
    margin = probabilities[rows, likely] - probabilities[rows, given]
    order = np.argsort(-margin, kind="stable")
    return Suspects(rows[order], given[order], likely[order], margin[order])


def wrong_probability(probabilities: Floats, labels: Ints, suspects: Suspects) -> Floats:
    """Return an upper estimate of the probability that each suspected label is wrong, (S,), by Bayes' rule.

    The rate e of wrong labels is at most the share of the most confident predictions that disagree with their label,
    because confident predictions are the least often wrong themselves. A label that is given with probability p and
    whose likely label has q is wrong with probability e (q - e) / ((1 - 2e) p), at most 1.
    """
    confident = np.argsort(-probabilities.max(1), kind="stable")[: max(FEWEST, round(MOST_CONFIDENT * len(labels)))]
    disagree = int((probabilities[confident].argmax(1) != labels[confident]).sum())
    rate = min((disagree + 0.5) / (len(confident) + 1), 0.49)  # Jeffreys' estimate: never 0
    given, likely = (probabilities[suspects.rows, each] for each in (suspects.given, suspects.likely))
    wrong = rate * np.maximum(likely - rate, 0.0) / ((1 - 2 * rate) * np.maximum(given, 1e-9))
    return np.asarray(np.minimum(wrong, 1.0))


def self_confidence(probabilities: Floats, labels: Ints) -> Floats:
    """Return the threshold t of each class (C,): the mean probability of the class in the rows that have it (Eq. 2).

    A class that no row has, or that is predicted for none of its rows, has an infinite threshold.
    """
    classes = probabilities.shape[1]
    own = probabilities[np.arange(len(labels)), labels]
    mean = ratio(np.bincount(labels, weights=own, minlength=classes), np.bincount(labels, minlength=classes))
    return np.where(mean > 0, mean, np.inf)


def confident_joint(probabilities: Floats, labels: Ints) -> Ints:
    """Return the confident joint (C, C): the rows with given label i that confidently have label j (Eq. 1).

    A row confidently has the most probable of the labels whose probability reaches the threshold.
    """
    classes = probabilities.shape[1]
    reached = np.where(probabilities >= self_confidence(probabilities, labels), probabilities, -1.0)
    counted = reached.max(1) >= 0
    pairs = labels[counted] * classes + reached[counted].argmax(1)
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def noise_counts(probabilities: Floats, labels: Ints) -> Floats:
    """Return the estimated number of rows (C, C) with given label i and true label j: N times the joint of Eq. 3."""
    joint = confident_joint(probabilities, labels)
    given = np.bincount(labels, minlength=len(joint))
    return ratio(joint, joint.sum(1, keepdims=True)) * given[:, None]


def _prune_by_noise_rate(probabilities: Floats, labels: Ints) -> Bools:
    """Return (N,) whether a row is pruned: for each i ≠ j, the rows of label i that favour j the most over i.

    Their number is the estimated number of rows with given label i and true label j.
    """
    counts = np.rint(noise_counts(probabilities, labels)).astype(np.int64)
    np.fill_diagonal(counts, 0)
    pruned = np.zeros(len(labels), np.bool_)
    for label in np.flatnonzero(counts.any(1)):
        rows = np.flatnonzero(labels == label)
        margins = probabilities[rows] - probabilities[rows, label][:, None]
        order = np.argsort(-margins, axis=0, kind="stable")  # each column sorted on its own
        chosen = np.arange(len(rows))[:, None] < counts[label]
        pruned[rows[order[chosen]]] = True
    return pruned
