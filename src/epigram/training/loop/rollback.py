"""Rollback to the best weights after a NaN or infinite loss, and the losses that it checks."""

from __future__ import annotations

import copy
from collections import deque
from math import isfinite, nan
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from epigram.core.errors import ParameterError
from epigram.training.loop.callback import Callback
from epigram.training.loop.optimization import scale_learning_rate
from epigram.training.loop.progress import report_progress
from epigram.training.loop.record import CHECK_INTERVAL, Position
from epigram.training.objectives.base import Batch

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer

MEAN_SHARE = 0.05  # weight of a loss in the moving average
ROLLBACK_FACTOR = 0.5  # factor of the learning rate after a rollback


class DivergedError(ParameterError):
    """Error for a NaN or infinite loss."""


class Losses:
    """Mean of the last losses, and the first step with a NaN or infinite loss.

    A step only keeps its loss. Reading the mean or the step waits for the device.
    """

    def __init__(self, mean: float = nan) -> None:
        self._mean, self._diverged = mean, 0
        self._unread: list[tuple[int, bool, Tensor]] = []  # step, whether the mean starts again, and loss
        self.recent: deque[Batch] = deque(maxlen=CHECK_INTERVAL)  # batches since the last check

    def add(self, loss: Tensor, batch: Batch, position: Position) -> None:
        """Keep the loss of a step on `batch`."""
        self.recent.append(batch)
        self._unread.append((position.step, position.step == position.rollback_step + 1, loss))

    @property
    def mean(self) -> float:
        """Moving average of the finite losses since the start or the last rollback; NaN before the first one."""
        self._read()
        return self._mean

    @property
    def diverged(self) -> int:
        """The first step since the last check whose loss, or whose evaluation, was NaN or infinite; 0 if none was."""
        self._read()
        return self._diverged

    @diverged.setter
    def diverged(self, step: int) -> None:
        self._read()
        self._diverged = step

    def _read(self) -> None:
        if not self._unread:
            return
        losses = torch.stack([loss for _, _, loss in self._unread]).tolist()
        for (step, restarts, _), loss in zip(self._unread, losses, strict=True):
            if not isfinite(loss):
                self._diverged = self._diverged or step
            else:
                self._mean = loss if restarts else self._mean + MEAN_SHARE * (loss - self._mean)
        self._unread.clear()


class RollBack(Callback):
    """Check of the losses, every few steps and before each evaluation."""

    def start(self, trainer: Trainer) -> None:
        """Keep the initial weights, to which a training rolls back before its first evaluation."""
        if trainer.config.rollbacks:
            trainer.best = copy.deepcopy(trainer.model.state_dict())

    def after_step(self, trainer: Trainer) -> None:
        """Check the losses where it is due."""
        if trainer.evaluates or trainer.position.done % CHECK_INTERVAL == 0:
            self.check(trainer)

    def check(self, trainer: Trainer) -> None:
        """Roll back, or raise DivergedError, if a loss since the last check was NaN or infinite."""
        position, step = trainer.position, trainer.losses.diverged
        if not step:
            return
        if position.rollbacks < trainer.config.rollbacks:
            self.roll_back(trainer)
            report_progress(
                trainer,
                f"loss is NaN or infinite at step {step}; rolled back to the best weights, learning rate halved",
            )
            return
        reason = trainer.objective.explain_divergence(trainer.losses.recent[step - position.step - 1])
        raise DivergedError(f"loss is NaN or infinite at step {step} (epoch {position.epoch}){reason}")

    def roll_back(self, trainer: Trainer) -> None:
        """Load the best weights, clear the state of the optimizer and halve the learning rate."""
        trainer.model.load_state_dict(trainer.best)
        trainer.optimizer.state.clear()
        scale_learning_rate(trainer.schedule, ROLLBACK_FACTOR)
        trainer.losses.diverged = 0
        trainer.position.rollbacks += 1
        trainer.position.rollback_step = trainer.position.step
