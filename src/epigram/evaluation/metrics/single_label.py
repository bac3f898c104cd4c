"""Predictions for texts with one label each: the most probable label, or the label with the least expected price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.metrics import mistakes
from epigram.evaluation.metrics.choice import choose_labels
from epigram.evaluation.metrics.counts import LabelCounts, label_counts
from epigram.evaluation.metrics.row_scores import RowScores
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.records.results import Task
from epigram.evaluation.tuning.temperature import at_temperature


@dataclass(frozen=True)
class SingleLabelPredictions(SplitPredictions):
    """Probabilities (K, N, C) of the labels of one split, with its gold labels (N,), class numbers.

    `prices` (C, C) are the prices of predictions, if these choose the labels, see `choose_labels`.
    """

    probabilities: Floats
    gold: Ints
    prices: Floats | None = None

    task: ClassVar[Task] = "single"

    @cached_property
    def predicted(self) -> Ints:  # type: ignore[override]
        """Chosen labels (K, N), see `choose_labels`."""
        return choose_labels(self.probabilities, self.prices)

    @cached_property
    def confidence(self) -> Floats:
        """Probability of the predicted labels (K, N)."""
        return np.take_along_axis(self.probabilities, self.predicted[..., None], -1)[..., 0]

    @property
    def classes(self) -> int:
        """Number of labels."""
        return int(self.probabilities.shape[-1])

    @cached_property
    def correct(self) -> Bools:
        """Whether the predicted label is the gold one, (K, N)."""
        return np.asarray(self.predicted == self.gold)

    def seed(self, number: int) -> SingleLabelPredictions:
        """Return only the predictions of the seed at place `number` (K = 1)."""
        return replace(self, probabilities=self.probabilities[number : number + 1])

    def mean(self) -> SingleLabelPredictions:
        """Combine the seeds (K = 1): mean probabilities, and the label that they choose."""
        return replace(self, probabilities=self.probabilities.mean(0, keepdims=True))

    def at_temperature(self, temperature: float) -> SingleLabelPredictions:
        """Return the predictions with the probabilities after dividing their logits by the temperature."""
        return replace(self, probabilities=at_temperature(self.probabilities, temperature, multi=False))

    def row_scores_without(self, label: int) -> RowScores:
        """Return what each row adds to the micro-F1 of the labels other than `label`."""
        predicted, gold = self.predicted != label, self.gold != label
        return RowScores(2.0 * (self.correct & gold), predicted.astype(float) + gold)

    def counts(self) -> LabelCounts:
        """Return the counts of every label."""
        return label_counts(self.gold, self.predicted, self.classes)

    def confusion(self) -> list[list[int]]:
        """Return the confusion matrix of all seeds as `Metrics` has it."""
        gold = np.broadcast_to(self.gold, self.predicted.shape).ravel()
        return mistakes.cells(gold, self.predicted.ravel(), self.classes)

    def confidences(self) -> tuple[Floats, Bools]:
        """Return the probability of the predicted label of each row, and whether it is correct."""
        return self.confidence.ravel(), self.correct.ravel()

    def brier(self) -> float:
        """Return the mean squared error, summed over the labels."""
        gold = self.gold[:, None] == np.arange(self.classes)
        return float(((self.probabilities - gold) ** 2).sum(-1).mean())

    def errors(self) -> Floats:
        """Return the probability (N,) of the label that the first seed predicts; -1 if it is correct."""
        return np.where(self.correct[0], -1.0, self.confidence[0])

    def named(self, labels: Sequence[str], row: int) -> tuple[list[str], list[str]]:
        """Return the name of the gold label of a row, and of the label that the first seed predicts."""
        return [labels[self.gold[row]]], [labels[self.predicted[0, row]]]
