"""Predictions for texts that may have several labels: each label of each row is a prediction of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from epigram.evaluation.arrays import Bools, Floats
from epigram.evaluation.metrics.counts import LabelCounts, multi_label_counts
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.records.results import Task
from epigram.evaluation.tuning.temperature import at_temperature


@dataclass(frozen=True)
class MultiLabelPredictions(SplitPredictions):
    """Probabilities and predicted labels (K, N, C) of one split, with its gold labels (N, C)."""

    probabilities: Floats
    predicted: Bools
    gold: Bools

    task: ClassVar[Task] = "multi"

    def seed(self, number: int) -> MultiLabelPredictions:
        """Return only the predictions of the seed at place `number` (K = 1)."""
        part = slice(number, number + 1)
        return MultiLabelPredictions(self.probabilities[part], self.predicted[part], self.gold)

    def mean(self) -> MultiLabelPredictions:
        """Combine the seeds (K = 1): mean probabilities, and the labels that most seeds predict."""
        votes = self.predicted.mean(0, keepdims=True)
        return MultiLabelPredictions(self.probabilities.mean(0, keepdims=True), votes > 0.5, self.gold)

    def at_temperature(self, temperature: float) -> MultiLabelPredictions:
        """Return the probabilities after dividing their logits by the temperature; the labels stay the same."""
        scaled = at_temperature(self.probabilities, temperature, multi=True)
        return MultiLabelPredictions(scaled, self.predicted, self.gold)

    def counts(self) -> LabelCounts:
        """Return the counts of every label."""
        return multi_label_counts(self.gold, self.predicted)

    def confusion(self) -> list[list[int]]:
        """Return no cells: a label is not confused with another one."""
        return []

    def confidences(self) -> tuple[Floats, Bools]:
        """Return the probability of each label of each row, and whether the row has it."""
        return self.probabilities.ravel(), np.broadcast_to(self.gold, self.probabilities.shape).ravel()

    def brier(self) -> float:
        """Return the mean squared error, averaged over the labels."""
        return float(((self.probabilities - self.gold) ** 2).mean())

    def errors(self) -> Floats:
        """Return the probability (N,) of the most confident wrong decision of the first seed; -1 if a row has none.

        A model also predicts, with some probability, that a row does not have a label.
        """
        predicted, probabilities = self.predicted[0], self.probabilities[0]
        decided = np.where(predicted, probabilities, 1.0 - probabilities)
        return np.asarray(np.where(predicted != self.gold, decided, -1.0).max(1))

    def named(self, labels: Sequence[str], row: int) -> tuple[list[str], list[str]]:
        """Return the names of the gold labels of a row, and of the labels that the first seed predicts."""
        gold, predicted = (
            [labels[number] for number in np.flatnonzero(each).tolist()]
            for each in (self.gold[row], self.predicted[0, row])
        )
        return gold, predicted
