"""Decay of the learning rate when evaluations stop improving: schedule `plateau` (MHAL)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epigram.training.config import TrainingConfig, ceil_divide
from epigram.training.loop.callback import Callback
from epigram.training.loop.optimization import scale_learning_rate
from epigram.training.loop.plan import Event
from epigram.training.objectives.base import Evaluation

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer

PLATEAU_EVALUATIONS, PLATEAU_FACTOR = 3, 0.9  # evaluations without improvement before a decay, and its factor


class DecayOnPlateau(Callback):
    """Decay after every few evaluations without improvement; after more if `min_steps` adds epochs.

    `config` are the settings with these epochs, `given` those of the user.
    """

    def __init__(self, config: TrainingConfig, given: TrainingConfig) -> None:
        self.evaluations = ceil_divide(PLATEAU_EVALUATIONS * config.epochs, given.epochs)

    def after_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Decay the learning rate where it is due."""
        stale = trainer.record.stale
        if stale and stale % self.evaluations == 0:
            scale_learning_rate(trainer.schedule, PLATEAU_FACTOR)
            trainer.record.events.append(Event(trainer.position.step, "decay"))
