"""Training loop for any objective; it resumes from a checkpoint with bit-identical results."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from epigram.core.errors import ParameterError, TryAgainError, is_out_of_memory
from epigram.nn.torch_adapter import keep_freed_memory
from epigram.process.signals import defer_signals
from epigram.training import parallel
from epigram.training.checkpoint import Checkpoints, checkpoint_or_stop
from epigram.training.config import ceil_divide
from epigram.training.distributed.data_parallel import DataParallelLoss
from epigram.training.history import CHECK_INTERVAL, Position, Progress, Record, Report, estimate_pace
from epigram.training.objectives.base import Batch, Objective
from epigram.training.optimization import build_optimizer, build_schedule, scale_learning_rate
from epigram.training.plan import Event, Plan
from epigram.training.state import State, capture, restore
from epigram.training.step import optimizer_step

# schedule `plateau` (MHAL): stale evaluations before the rate decays (more if min_steps adds epochs), and its factor
PLATEAU_EVALUATIONS, PLATEAU_FACTOR = 3, 0.9
ROLLBACK_FACTOR = 0.5  # factor of the learning rate after a rollback


class DivergedError(ParameterError):
    """Error for a NaN or infinite loss."""


class Trainer:
    """Trainer of `model` for an `objective`, which holds the texts and computes losses and evaluations.

    It selects the weights with the best evaluation and stops early, unless the objective keeps the last weights. With
    `checkpoints`, it resumes from the latest one, and the result is that of an uninterrupted training. With a `plan`,
    nothing is evaluated: the training takes the plan's decisions and ends with its last step.
    """

    def __init__(
        self,
        model: Any,
        objective: Objective,
        *,
        seed: int,
        rate: float | None = None,
        report: Report | None = None,
        checkpoints: Checkpoints | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.model, self.objective, self.report = model, objective, report
        keep_freed_memory()
        objective.prepare(model)
        parallel.broadcast_and_seed(model, seed)
        self.checkpoints = checkpoints
        self.order = np.random.default_rng(seed)
        self.per_epoch = len(objective.epoch(np.random.default_rng(seed)))
        self.config = objective.config.lengthened(self.per_epoch)
        self.planned = self.config.epochs * self.per_epoch
        self.plan = None if plan is None else plan.scaled(self.planned)
        self.steps = self.planned if self.plan is None else self.plan.steps
        self.plateau = ceil_divide(PLATEAU_EVALUATIONS * self.config.epochs, objective.config.epochs)
        self.loss = DataParallelLoss(model, objective)
        self.optimizer = build_optimizer(model, self.config, rate or self.config.learning_rate)
        self.schedule = build_schedule(self.optimizer, self.config, self.planned)
        self.record, self.position = Record(depth=model.depth), Position(order=dict(self.order.bit_generator.state))
        self.best: dict[str, Tensor] = copy.deepcopy(model.state_dict()) if self.config.rollbacks else {}
        self.evaluated: dict[int, Tensor] = {}  # logits of an evaluation by its step, if the objective keeps them
        self.initial_drops = len(model.dropped)
        # Mean of the last losses and first step with a NaN or infinite loss, kept on the device: reading them waits for
        # the step.
        self.running, self.diverged = (torch.tensor(value, device=objective.device) for value in (torch.nan, -1))
        self.recent: deque[Batch] = deque(maxlen=CHECK_INTERVAL)  # batches since the last check of the losses
        self.started, self.first_step = time.monotonic(), 0

    def run(self) -> Record:
        """Train to the end and return the record; the model then has the selected weights."""
        self._resume()
        with defer_signals() as stop_signal:
            while self.position.epoch <= self.config.epochs and not self._stopped_early:
                for _ in self._epoch():
                    checkpoint_or_stop(self.checkpoints, stop_signal(), self.position.step, self.state)
        if not self.objective.keeps_last and self.plan is None:
            self.model.load_state_dict(self.best)
        self.model.eval()
        return self.record

    @property
    def _stopped_early(self) -> bool:
        record, config = self.record, self.config
        if self.plan is not None:
            return self.position.step >= self.plan.steps
        if config.patience_steps is not None:
            return record.stale_steps >= config.patience_steps
        return record.stale >= config.patience

    def _epoch(self) -> Iterator[None]:
        """Train on the remaining batches of the epoch; yield after each one, when its evaluation is done as well."""
        position = self.position
        batches = self.objective.epoch(self.order)
        for batch in islice(batches, position.done, None):
            if self._stopped_early:
                break
            self._step(batch)
            position.done += 1
            last = position.done == len(batches)
            evaluate_now = last or self._stopped_early or self._is_evaluation_due(len(batches))
            if evaluate_now or position.done % CHECK_INTERVAL == 0:
                self._check_divergence()
            if self.plan is not None:
                self._follow(self.plan, last)
            elif evaluate_now:
                self._evaluate(last)
            elif position.done % CHECK_INTERVAL == 0:
                self._report()
            if not last:
                yield
        position.epoch, position.done, position.order = position.epoch + 1, 0, dict(self.order.bit_generator.state)
        yield

    def _is_evaluation_due(self, batches: int) -> bool:
        """Return whether to evaluate within an epoch of that many `batches`."""
        position, config = self.position, self.config
        if config.evaluation_steps is not None:
            return position.step % config.evaluation_steps == 0
        every = max(1, batches // config.evaluations)
        return position.done % every == 0 and batches - position.done >= every

    def _step(self, batch: Batch) -> None:
        """Train on `batch`; if out of memory, take this and all later batches in two halves."""
        loss = self._try_step(batch)
        if loss is None:
            self._check_halves(batch)
            self.position.pieces = 2
            if self.checkpoints:
                self.checkpoints.halved = True
            self._report("out of memory; each batch is split into two halves from now on")
            return self._step(batch)
        self.schedule.step()
        self.position.step += 1
        self.recent.append(batch)
        self._update_running_loss(loss)
        return None

    def _update_running_loss(self, loss: Tensor) -> None:
        """Update the mean loss with a finite loss; store the step of the first loss that is NaN or infinite."""
        finite, step = loss.isfinite(), self.position.step
        mean = loss if step == self.position.rollback_step + 1 else torch.lerp(self.running, loss, 0.05)
        self.running = torch.where(finite, mean, self.running)
        self.diverged = torch.where(~finite & (self.diverged < 0), step, self.diverged)

    def _check_halves(self, batch: Batch) -> None:
        """Raise TryAgainError if halves of `batch` would not help, or if other processes have not run out of memory."""
        (texts, rows), count = batch, parallel.processes()
        if self.position.pieces == 1 and len(rows) > 1 and count == 1:
            return
        how = "in halved batches" if count == 1 else f"shared by {count} processes"
        raise TryAgainError(
            f"out of memory at step {self.position.step + 1}, on {len(rows)} texts of up to "
            f"{texts.lengths[rows].max()} tokens {how}; free memory and rerun, or lower {self.objective.size_settings}"
        )

    def _try_step(self, batch: Batch) -> Tensor | None:
        """Return the loss of a step, or None if out of memory."""
        self.model.train()
        try:
            loss = optimizer_step(self.model, self._losses(batch), self.optimizer, self.config.clip)
            return parallel.mean_over_processes(loss)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        return None  # not in the handler, whose error keeps the memory in use

    def _losses(self, batch: Batch) -> Iterator[Tensor]:
        for rows, weight in parallel.split_batch(batch.rows, self.model, self.position.pieces):
            yield self.loss(Batch(batch.texts, rows)) * weight

    def _check_divergence(self) -> None:
        """Roll back, or raise DivergedError, if a loss since the last check was NaN or infinite."""
        position, step = self.position, int(self.diverged)
        if step < 0:
            return None
        if position.rollbacks < self.config.rollbacks:
            return self._roll_back(
                f"loss is NaN or infinite at step {step}; rolled back to the best weights, learning rate halved"
            )
        batch = self.recent[step - position.step - 1]
        raise DivergedError(
            f"loss is NaN or infinite at step {step} (epoch {position.epoch}){self.objective.explain_divergence(batch)}"
        )

    def _roll_back(self, note: str) -> None:
        self.model.load_state_dict(self.best)
        self.optimizer.state.clear()
        scale_learning_rate(self.schedule, ROLLBACK_FACTOR)
        self.diverged.fill_(-1)
        self.position.rollbacks, self.position.rollback_step = self.position.rollbacks + 1, self.position.step
        self._report(note)

    def _evaluate(self, last: bool) -> None:
        """Evaluate and store the best weights; after an epoch's `last` batch, the model may drop a layer."""
        record, dropped = self.record, len(self.model.dropped)
        evaluation = self.objective.evaluate(self.model, adapt=last)
        step = self.position.step
        record.events += [Event(step, "drop", layer) for layer in self.model.dropped[dropped:]]
        if evaluation is None:  # treated as divergence: never the best weights
            self.diverged.fill_(step)
            return self._check_divergence()
        if self.model.depth != record.depth:  # a layer was dropped: restart the search for the best weights
            record.depth, record.score, record.stale = self.model.depth, Record().score, 0
        if evaluation.logits is not None:
            self.evaluated[step] = torch.from_numpy(evaluation.logits)
        score = evaluation.score, -evaluation.loss
        line = {"epoch": self.position.epoch, "step": step, "loss": float(self.running)}
        if np.isfinite(line["loss"]):  # NaN before the first finite loss
            record.history.append({**line, "dev": evaluation.score, "dev_loss": evaluation.loss})
        record.stale, record.stale_steps = record.stale + 1, step - record.step
        if self.objective.keeps_last or score > record.score:
            record.score, record.accuracy = score, evaluation.accuracy
            record.epoch, record.step, record.stale, record.stale_steps = self.position.epoch, step, 0, 0
            self.best = {} if self.objective.keeps_last else copy.deepcopy(self.model.state_dict())
        elif self.config.schedule == "plateau" and record.stale % self.plateau == 0:
            scale_learning_rate(self.schedule, PLATEAU_FACTOR)
            record.events.append(Event(step, "decay"))
        return self._report()

    def _follow(self, plan: Plan, last: bool) -> None:
        """Take the plan's decisions after this step; after an epoch's `last` batch, keep weights to roll back to."""
        record, due = self.record, [event for event in plan.events if event.step == self.position.step]
        record.epoch, record.step = self.position.epoch, self.position.step
        for event in due:
            if event.kind == "drop":
                self.model.drop(event.layer)
            else:
                scale_learning_rate(self.schedule, PLATEAU_FACTOR)
        if self.config.rollbacks and (last or due):
            self.best = copy.deepcopy(self.model.state_dict())
        if last or record.step % CHECK_INTERVAL == 0:
            self._report()

    def plan_to_repeat(self) -> Plan:
        """Return the plan of a training that ends where this one had its best evaluation, with all decisions."""
        return Plan(self.record.step, self.planned, tuple(self.record.events))

    def _report(self, note: str = "") -> None:
        if self.report is None:
            return
        position = self.position
        speed, left = estimate_pace(
            time.monotonic() - self.started, position.step - self.first_step, self.steps - position.step
        )
        rate = speed * self.objective.size / self.per_epoch
        dev = max((line["dev"] for line in self.record.history), default=None)
        loss = float(self.running)
        self.report(
            Progress(position.epoch, self.config.epochs, position.step, self.steps, loss, dev, rate, left, note)
        )

    def state(self) -> State | None:
        """Return all that the next step depends on; None if a loss since the last check was NaN or infinite.

        Of several processes that train together, each must call it.
        """
        if int(self.diverged) >= 0:
            return None
        state = capture(self.model, self.optimizer, self.schedule)
        best = {f"best.{name}": value for name, value in self.best.items()}
        evaluated = {f"evaluated.{step}": value for step, value in self.evaluated.items()}
        objective = {f"objective.{name}": value for name, value in self.objective.state().items()}
        own = {
            "record": asdict(self.record),
            "place": asdict(self.position),
            "dropped": self.model.dropped[self.initial_drops :],
        }
        return State(
            {**state.tensors, **best, **evaluated, **objective, "running": self.running}, {**state.facts, **own}
        )

    def _resume(self) -> None:
        """Resume from the latest checkpoint, if there is one."""
        with parallel.first_before_others():  # the first one removes damaged checkpoints
            state = self.checkpoints.latest() if self.checkpoints else None
        if state is None:
            return
        facts, record = state.facts, state.facts["record"]
        for layer in facts["dropped"]:
            self.model.drop(layer)
        restore(state, self.model, self.optimizer, self.schedule)
        self.objective.restore(state.part("objective"))
        self.evaluated = {int(step): value for step, value in state.part("evaluated").items()}
        self.best, self.running = state.part("best"), state.tensors["running"].to(self.running.device)
        self.record = Record(
            **{**record, "score": tuple(record["score"]), "events": [Event(*event) for event in record["events"]]}
        )
        self.position = Position(**facts["place"])
        self.order.bit_generator.state = self.position.order
        self.first_step = self.position.step
        self._report(f"resuming from step {self.position.step:,} of {self.steps:,}")
