"""Training loop for any objective; it resumes from a checkpoint with bit-identical results."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor

from epigram.core import deadline
from epigram.nn.torch_adapter import keep_freed_memory
from epigram.process.signals import defer_signals
from epigram.training.distributed import parallel
from epigram.training.distributed.data_parallel import DataParallelLoss
from epigram.training.loop.callback import Callback
from epigram.training.loop.checkpoints import Checkpoints, SaveCheckpoints
from epigram.training.loop.depth_control import RecordDepth
from epigram.training.loop.early_stopping import DecayOnPlateau, SelectWeights
from epigram.training.loop.optimization import build_optimizer, build_schedule
from epigram.training.loop.plan import Plan
from epigram.training.loop.plan_replay import ReplayPlan
from epigram.training.loop.progress import Report, ReportProgress
from epigram.training.loop.record import Position, Record
from epigram.training.loop.rollback import Losses, RollBack
from epigram.training.loop.step import train_on
from epigram.training.objectives.base import Batch, Objective


class Trainer:
    """Trainer of `model` for an `objective`, which holds the texts and computes losses and evaluations.

    It selects the weights with the best evaluation and stops early, unless the objective keeps the last weights. With
    `checkpoints`, it resumes from the latest one; the result equals an uninterrupted training. With a `plan`,
    nothing is evaluated: the training takes the plan's decisions and ends with its last step.
    """

    def __init__(
        self,
        model: Any,
        objective: Objective,
        *,
        seed: int,
        report: Report | None = None,
        checkpoints: Checkpoints | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.model, self.objective, self.report, self.checkpoints = model, objective, report, checkpoints
        keep_freed_memory()
        objective.prepare(model)
        parallel.broadcast_and_seed(model, seed)
        self.order = np.random.default_rng(seed)
        self.per_epoch = len(objective.epoch(np.random.default_rng(seed)))
        self.config = objective.config.lengthened(self.per_epoch)
        self.planned = self.config.epochs * self.per_epoch
        self.plan = None if plan is None else plan.scaled(self.planned)
        self.steps = self.planned if self.plan is None else self.plan.steps
        self.loss = DataParallelLoss(model, objective)
        self.optimizer = build_optimizer(model, self.config)
        self.schedule = build_schedule(self.optimizer, self.config, self.planned)
        self.record, self.position = Record(depth=model.depth), Position()
        self.losses = Losses()
        self.best: dict[str, Tensor] = {}  # weights of the best evaluation
        self.evaluated: dict[int, Tensor] = {}  # logits of an evaluation by its step, if the objective keeps them
        self.started, self.first_step = time.monotonic(), 0
        self.callbacks = self._callbacks()

    def run(self) -> Record:
        """Train to the end and return the record; the model then has the selected weights."""
        for callback in self.callbacks:
            callback.start(self)
        with defer_signals() as self.stop_signal:
            while self.position.epoch <= self.config.epochs and not self.stopped:
                self._train_epoch()
        for callback in self.callbacks:
            callback.finish(self)
        self.model.eval()
        return self.record

    def _train_epoch(self) -> None:
        """Train on the remaining batches of the epoch, and evaluate where it is due."""
        position = self.position
        position.order = dict(self.order.bit_generator.state)
        batches = self.objective.epoch(self.order)
        self.model.train()
        for batch in islice(batches, position.done, None):
            self.step(batch)
            position.done += 1
            self.ends_epoch = position.done == len(batches)
            self.evaluates = self.ends_epoch or self.stopped or self._is_evaluation_due(len(batches))
            for callback in self.callbacks:
                callback.after_step(self)
            if self.evaluates and self.plan is None:
                self.evaluate()
            for callback in self.callbacks:
                callback.between_steps(self)
            if self.stopped:
                break
        position.epoch, position.done = position.epoch + 1, 0

    def step(self, batch: Batch) -> None:
        """Take an optimizer step on `batch`."""
        deadline.check()
        loss = train_on(self, batch)
        self.schedule.step()
        self.position.step += 1
        self.losses.add(loss, batch, self.position)

    def evaluate(self) -> None:
        """Evaluate the model; after the last batch of an epoch, it may drop a layer."""
        evaluation = self.objective.evaluate(self.model, adapt=self.ends_epoch)
        self.model.train()
        if evaluation is None:  # treated as divergence: never the best weights
            self.losses.diverged = self.position.step
            return self.rollback.check(self)
        for callback in self.callbacks:
            callback.after_evaluation(self, evaluation)
        return None

    @property
    def stopped(self) -> bool:
        """Whether the training ends before its planned steps."""
        return any(callback.stops(self) for callback in self.callbacks)

    def plan_to_repeat(self) -> Plan:
        """Return the plan of a training that ends where this one had its best evaluation, with all decisions."""
        return Plan(self.record.step, self.planned, tuple(self.record.events))

    def _callbacks(self) -> list[Callback]:
        """Return the callbacks in the order of their calls."""
        self.rollback = RollBack()
        decisions: list[Callback] = [RecordDepth(self.model), SelectWeights()]
        if self.config.schedule == "plateau":
            decisions.append(DecayOnPlateau(self.config, self.objective.config))
        if self.plan is not None:
            decisions = [ReplayPlan(self.plan)]
        return [self.rollback, *decisions, ReportProgress(), SaveCheckpoints()]

    def _is_evaluation_due(self, batches: int) -> bool:
        """Return whether to evaluate within an epoch of that many `batches`."""
        position, config = self.position, self.config
        if config.evaluation_steps is not None:
            return position.step % config.evaluation_steps == 0
        every = max(1, batches // config.evaluations)
        return position.done % every == 0 and batches - position.done >= every
