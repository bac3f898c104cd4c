"""Registry of the metrics of text labels by name: `Scores` has a field for each, and reports use the titles.

Precision, recall and F1 are defined as in scikit-learn; a ratio of 0 and 0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from epigram.evaluation.arrays import Floats, ratio
from epigram.evaluation.metrics.counts import LabelCounts, per_class
from epigram.evaluation.records.results import Scores, SentenceScores


@dataclass(frozen=True)
class Metric:
    """A metric with its title in reports; `of` returns its value, between 0 and 1, for each seed or resample, (...)."""

    title: str
    of: Callable[[LabelCounts], Floats]


def accuracy(counts: LabelCounts) -> Floats:
    """Return the share of rows whose labels are all right; with several labels per row, this is subset accuracy."""
    return ratio(counts.exact, np.asarray(counts.rows))


def macro_f1(counts: LabelCounts) -> Floats:
    """Return the mean F1 over the labels.

    A label that is neither in gold nor predicted counts as 0 for multi-label and is ignored for single-label.
    """
    classes = per_class(counts.hits, counts.predicted, counts.support)
    counted = np.array(classes.f1.shape[-1]) if counts.multi else classes.seen.sum(-1)
    return ratio(classes.f1.sum(-1), counted)


def macro_recall(counts: LabelCounts) -> Floats:
    """Return the mean recall over the labels that `macro_f1` counts; 0 for a predicted label without gold rows."""
    classes = per_class(counts.hits, counts.predicted, counts.support)
    counted = np.array(classes.recall.shape[-1]) if counts.multi else classes.seen.sum(-1)
    return ratio(classes.recall.sum(-1), counted)


def micro_f1(counts: LabelCounts) -> Floats:
    """Return the F1 of all decisions together."""
    return ratio(2 * counts.hits.sum(-1), counts.predicted.sum(-1) + counts.support.sum(-1))


def weighted_f1(counts: LabelCounts) -> Floats:
    """Return the mean F1 over the labels, weighted by their gold rows."""
    classes = per_class(counts.hits, counts.predicted, counts.support)
    return ratio((classes.f1 * counts.support).sum(-1), counts.support.sum(-1))


def micro_precision(counts: LabelCounts) -> Floats:
    """Return the precision of all decisions together."""
    return ratio(counts.hits.sum(-1), counts.predicted.sum(-1))


def micro_recall(counts: LabelCounts) -> Floats:
    """Return the recall of all decisions together."""
    return ratio(counts.hits.sum(-1), counts.support.sum(-1))


def hamming_loss(counts: LabelCounts) -> Floats:
    """Return the share of wrong decisions: of the labels of all rows for multi-label, of the rows for single-label."""
    if not counts.multi:
        return 1.0 - accuracy(counts)
    wrong = counts.predicted.sum(-1) + counts.support.sum(-1) - 2 * counts.hits.sum(-1)
    return ratio(wrong, np.asarray(counts.rows * counts.support.shape[-1]))


METRICS = {
    "accuracy": Metric("accuracy", accuracy),
    "macro_f1": Metric("macro-F1", macro_f1),
    "macro_recall": Metric("macro-recall", macro_recall),
    "micro_f1": Metric("micro-F1", micro_f1),
    "weighted_f1": Metric("weighted F1", weighted_f1),
    "micro_precision": Metric("micro-precision", micro_precision),
    "micro_recall": Metric("micro-recall", micro_recall),
    "hamming_loss": Metric("Hamming loss", hamming_loss),
}


def sentence_scores(counts: LabelCounts, plain: int) -> list[SentenceScores]:
    """Return P*, R* and F1* for each of K seeds: the hits of all labels but `plain` together (Pislar and Rei, 2020)."""
    marked = counts.without(plain)
    values = zip(micro_precision(marked), micro_recall(marked), micro_f1(marked), strict=True)
    return [SentenceScores(precision=float(p), recall=float(r), f1=float(f)) for p, r, f in values]


def scores_of(counts: LabelCounts) -> list[Scores]:
    """Return the values of all metrics for each of K seeds."""
    values = {name: metric.of(counts).tolist() for name, metric in METRICS.items()}
    return [Scores(**dict(zip(values, seed, strict=True))) for seed in zip(*values.values(), strict=True)]
