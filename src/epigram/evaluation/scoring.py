"""Predicted labels from probabilities, and what each row adds to the score that ranks the systems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epigram.evaluation import metrics
from epigram.evaluation.arrays import Bools, Floats, Ints, ratio
from epigram.evaluation.results import Decision, ScoreName, Scores, Task
from epigram.evaluation.thresholds import tuned_thresholds

SCORE: dict[Task, ScoreName] = {"single": "accuracy", "multi": "micro_f1"}


@dataclass(frozen=True)
class RowScores:
    """What each row gains and could gain, both (K, N): the score of a seed is Σ gained / Σ possible.

    Accuracy: a correct row gains 1 of 1. Micro-F1: a row gains 2·TP of 2·TP + FP + FN.
    """

    gained: Floats
    possible: Floats

    def scores(self) -> Floats:
        """Return the score of every seed, (K,)."""
        return ratio(self.gained.sum(1), self.possible.sum(1))

    def rows(self, chosen: Bools) -> RowScores:
        """Return only the rows where `chosen` (N,) is true."""
        return RowScores(self.gained[:, chosen], self.possible[:, chosen])


@dataclass(frozen=True)
class SplitPredictions:
    """Probabilities and predicted labels (K, N, C) of one split, with its gold labels (N, C)."""

    task: Task
    probabilities: Floats
    predicted: Bools
    gold: Bools

    def row_scores(self) -> RowScores:
        """Return what each row adds to the score."""
        hits = (self.gold & self.predicted).sum(-1).astype(float)
        if self.task == "single":
            return RowScores(hits, np.ones_like(hits))
        return RowScores(2 * hits, (self.predicted.sum(-1) + self.gold.sum(-1)).astype(float))

    def without_label(self, label: int) -> SplitPredictions:
        """Return the predictions without the class `label`, as a multi-label task."""
        others = np.arange(self.gold.shape[1]) != label
        return SplitPredictions(
            "multi", self.probabilities[..., others], self.predicted[..., others], self.gold[:, others]
        )

    def confusion(self) -> Ints:
        """Return confusion matrices (K, C, C) of single-label predictions: rows are gold, columns predicted."""
        gold, predicted = self.gold.argmax(-1), self.predicted.argmax(-1)
        return np.stack([metrics.confusion(gold, seed, self.gold.shape[1]) for seed in predicted])

    def scores(self) -> list[Scores]:
        """Return the scores of every seed."""
        if self.task == "single":
            return [metrics.scores(matrix) for matrix in self.confusion()]
        return [metrics.multi_label_scores(self.gold, seed) for seed in self.predicted]

    def mean(self) -> SplitPredictions:
        """Combine the seeds (K = 1): mean probabilities and the most likely label; multi-label: majority vote."""
        votes = self.predicted.mean(0, keepdims=True)
        probabilities = self.probabilities.mean(0, keepdims=True)
        predicted = votes > 0.5 if self.task == "multi" else _most_likely(probabilities)
        return SplitPredictions(self.task, probabilities, predicted, self.gold)


def seed_thresholds(task: Task, dev_labels: Ints, dev_probabilities: Floats, decision: Decision) -> Floats:
    """Return thresholds (K, C) tuned on the development set; (K, 0) for single-label, which needs none.

    If a decoder decides, they are 0.5: only the labels that it chose have a higher probability.
    """
    if task == "single":
        return np.zeros((len(dev_probabilities), 0))
    if decision == "decoder":
        return np.full((len(dev_probabilities), dev_labels.shape[1]), 0.5)
    return np.stack([tuned_thresholds(dev_labels.astype(bool), seed) for seed in dev_probabilities])


def predict_labels(task: Task, labels: Ints, probabilities: Floats, thresholds: Floats) -> SplitPredictions:
    """Predict the most likely label, or each label above its threshold (K, C); labels are (N,) or (N, C) of 0 and 1."""
    if task == "multi":
        return SplitPredictions(task, probabilities, probabilities > thresholds[:, None], labels.astype(bool))
    gold = np.arange(probabilities.shape[-1]) == labels[:, None]
    return SplitPredictions(task, probabilities, _most_likely(probabilities), gold)


def _most_likely(probabilities: Floats) -> Bools:
    return np.asarray(np.arange(probabilities.shape[-1]) == probabilities.argmax(-1)[..., None])
