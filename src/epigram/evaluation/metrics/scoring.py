"""Predicted labels of a split, with the gold labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray

from epigram.evaluation.arrays import Bools, Floats
from epigram.evaluation.metrics.counts import LabelCounts
from epigram.evaluation.metrics.registry import scores_of
from epigram.evaluation.records.results import Scores, Task


class SplitPredictions(ABC):
    """Predictions of K seeds for the N rows of one split, with the gold labels."""

    task: ClassVar[Task]
    gold: NDArray[Any]  # (N,) class numbers or (N, C)
    predicted: NDArray[Any]  # (K, N) class numbers or (K, N, C)
    probabilities: Floats  # (K, N, C)

    @abstractmethod
    def seed(self, number: int) -> SplitPredictions:
        """Return only the predictions of the seed at place `number` (K = 1)."""

    @abstractmethod
    def mean(self) -> SplitPredictions:
        """Combine the seeds (K = 1)."""

    @abstractmethod
    def at_temperature(self, temperature: float) -> SplitPredictions:
        """Return the predictions with the probabilities after dividing their logits by the temperature."""

    @abstractmethod
    def counts(self) -> LabelCounts:
        """Return the counts of every label."""

    def scores(self) -> list[Scores]:
        """Return the scores of every seed."""
        return scores_of(self.counts())

    @abstractmethod
    def confusion(self) -> list[list[int]]:
        """Return the confusion matrix as `Metrics` has it."""

    @abstractmethod
    def confidences(self) -> tuple[Floats, Bools]:
        """Return confidence and outcome of every prediction of all seeds, (M,) each."""

    @abstractmethod
    def brier(self) -> float:
        """Return the Brier score, the mean squared error of the probabilities, over all seeds."""

    @abstractmethod
    def errors(self) -> Floats:
        """Return the probability (N,) of the most confident wrong decision of the first seed; -1 if a row has none."""

    @abstractmethod
    def named(self, labels: Sequence[str], row: int) -> tuple[list[str], list[str]]:
        """Return the names of the gold labels of a row, and of the labels that the first seed predicts."""
