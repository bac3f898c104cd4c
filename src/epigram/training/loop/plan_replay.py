"""Replay of the decisions of a plan, for a training without dev."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from epigram.training.loop.callback import Callback
from epigram.training.loop.early_stopping import PLATEAU_FACTOR
from epigram.training.loop.optimization import scale_learning_rate
from epigram.training.loop.plan import Plan

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer


class ReplayPlan(Callback):
    """Decays and drops of layers after the steps of a scaled `plan`, which also ends the training."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def after_step(self, trainer: Trainer) -> None:
        """Take the decisions after this step; after these and after each epoch, keep the weights to roll back to."""
        record, step = trainer.record, trainer.position.step
        record.epoch, record.step = trainer.position.epoch, step
        due = [event for event in self.plan.events if event.step == step]
        for event in due:
            if event.kind == "drop":
                trainer.model.drop(event.layer)
            else:
                scale_learning_rate(trainer.schedule, PLATEAU_FACTOR)
        record.events += due
        if trainer.config.rollbacks and (trainer.ends_epoch or due):
            trainer.best = copy.deepcopy(trainer.model.state_dict())

    def stops(self, trainer: Trainer) -> bool:
        """Return whether the plan has ended."""
        return trainer.position.step >= self.plan.steps
