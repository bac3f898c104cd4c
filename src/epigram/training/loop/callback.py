"""Base class of the callbacks of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epigram.training.objectives.base import Evaluation

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer


class Callback:
    """What a training does beside its steps. By default, every method does nothing.

    The Trainer calls each method of all callbacks in their order. What a callback must know after an interruption is in
    the `record` and the `position` of the Trainer.
    """

    def start(self, trainer: Trainer) -> None:
        """Do what comes before the first step."""

    def after_step(self, trainer: Trainer) -> None:
        """Do what comes after a step, before an evaluation."""

    def after_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Do what comes after an evaluation with finite predictions."""

    def between_steps(self, trainer: Trainer) -> None:
        """Do what comes last before the next step."""

    def finish(self, trainer: Trainer) -> None:
        """Do what comes after the last step."""

    def stops(self, trainer: Trainer) -> bool:
        """Return whether the training ends before its planned steps."""
        return False
