"""Selection of the weights with the best evaluation, early stopping, and decay of the rate without improvement."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch

from epigram.training.config import TrainingConfig, ceil_divide
from epigram.training.loop.callback import Callback
from epigram.training.loop.optimization import scale_learning_rate
from epigram.training.loop.plan import Event
from epigram.training.objectives.base import Evaluation

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer


PLATEAU_EVALUATIONS, PLATEAU_FACTOR = 3, 0.9  # stale evaluations before the first decay, and the factor of each


class DecayOnPlateau(Callback):
    """Decay at the fourth evaluation in a row without improvement and at each further one (Pislar and Rei, 2020).

    With more epochs in `config` than in the user's settings (`given`), because of `min_steps`, as many more evaluations
    count as one.
    """

    def __init__(self, config: TrainingConfig, given: TrainingConfig) -> None:
        self.every = ceil_divide(config.epochs, given.epochs)

    def after_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Decay the learning rate where it is due."""
        stale, rest = divmod(trainer.record.stale, self.every)
        if stale > PLATEAU_EVALUATIONS and rest == 0:
            scale_learning_rate(trainer.schedule, PLATEAU_FACTOR)
            trainer.record.events.append(Event(trainer.position.step, "decay"))


class SelectWeights(Callback):
    """History of the evaluations, and the weights of the best one, or the last weights if the objective keeps them."""

    def after_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Record the evaluation, and keep the weights if it is the best one."""
        record, step, epoch = trainer.record, trainer.position.step, trainer.position.epoch
        if evaluation.logits is not None:
            trainer.evaluated[step] = torch.from_numpy(evaluation.logits)
        score = evaluation.score, -evaluation.loss
        line = {"epoch": epoch, "step": step, "loss": trainer.losses.mean}
        if np.isfinite(line["loss"]):  # NaN before the first finite loss
            record.history.append({**line, "dev": evaluation.score, "dev_loss": evaluation.loss})
        record.stale, record.stale_steps = record.stale + 1, step - record.step
        keeps_last = trainer.objective.keeps_last
        if keeps_last or score > record.score:
            record.score, record.accuracy = score, evaluation.accuracy
            record.epoch, record.step, record.stale, record.stale_steps = epoch, step, 0, 0
            trainer.best = {} if keeps_last else copy.deepcopy(trainer.model.state_dict())

    def stops(self, trainer: Trainer) -> bool:
        """Return whether the patience with evaluations that are not the best one has ended."""
        record, config = trainer.record, trainer.config
        if config.patience_steps is not None:
            return record.stale_steps >= config.patience_steps
        return record.stale >= config.patience

    def finish(self, trainer: Trainer) -> None:
        """Load the selected weights."""
        if not trainer.objective.keeps_last:
            trainer.model.load_state_dict(trainer.best)
