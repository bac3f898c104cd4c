"""Training loop: arrays in, a trained model and its history out, with exact resume from checkpoints."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from epigram.core.errors import ParameterError, TryAgainError, defer_signals, is_out_of_memory
from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import matmul_precision
from epigram.models.predict import dev_score
from epigram.nn.torch_adapter import keep_freed_memory
from epigram.training import parallel
from epigram.training.checkpoint import Checkpoints, checkpoint_or_stop
from epigram.training.config import TrainingConfig
from epigram.training.history import CHECK_INTERVAL, Position, Progress, Record, Report, estimate_pace
from epigram.training.optimization import build_optimizer, build_schedule, scale_learning_rate
from epigram.training.state import State, capture, restore
from epigram.training.step import optimizer_step

PLATEAU_EVALUATIONS, PLATEAU_FACTOR = (
    3,
    0.9,
)  # schedule `plateau` (MHAL): stale evaluations before the rate decays, and its factor
ROLLBACK_FACTOR = 0.5  # factor of the learning rate after a rollback
ROWS_SHOWN = 8  # rows in the first line of an error


class DivergedError(ParameterError):
    """Error for a NaN or infinite loss."""


class Trainer:
    """Trainer of `model` on `train` that selects the best weights on `dev` and stops early.

    With `checkpoints`, it resumes from the latest one, and the result is that of an uninterrupted training. Several
    processes that train together keep no checkpoints.
    """

    def __init__(
        self,
        model: Any,
        train: TextBatches,
        dev: TextBatches,
        config: TrainingConfig,
        *,
        seed: int,
        rate: float | None = None,
        report: Report | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.model, self.train, self.dev, self.config, self.report = model, train, dev, config, report
        keep_freed_memory()
        parallel.broadcast_and_seed(model, seed)
        self.checkpoints = checkpoints if parallel.processes() == 1 else None
        self.order = np.random.default_rng(seed)
        self.per_epoch = len(train.epoch(np.random.default_rng(seed), config.batch_size, config.max_tokens))
        self.steps = config.epochs * self.per_epoch
        self.optimizer = build_optimizer(model, config, rate or config.learning_rate)
        self.schedule = build_schedule(self.optimizer, config, self.steps)
        self.record, self.position = Record(depth=model.depth), Position(order=dict(self.order.bit_generator.state))
        self.best: dict[str, Tensor] = copy.deepcopy(model.state_dict()) if config.rollbacks else {}
        self.initial_drops = len(model.dropped)
        # Mean of the last losses and first step with a NaN or infinite loss, kept on the device: reading them waits for
        # the step.
        self.running, self.diverged = (torch.tensor(value, device=train.device) for value in (torch.nan, -1))
        self.started, self.first_step = time.monotonic(), 0

    def run(self) -> Record:
        """Train to the end and return the record; the model then has the best weights."""
        self._resume()
        with defer_signals() as stop_signal:
            while self.position.epoch <= self.config.epochs and self.record.stale < self.config.patience:
                for _ in self._epoch():
                    checkpoint_or_stop(self.checkpoints, stop_signal(), self.position.step, self.state)
        self.model.load_state_dict(self.best)
        self.model.eval()
        return self.record

    def _epoch(self) -> Iterator[None]:
        """Train on the remaining batches of the epoch; yield after each one, when its evaluation is done as well."""
        position = self.position
        batches = self.train.epoch(self.order, self.config.batch_size, self.config.max_tokens)
        every = max(1, len(batches) // self.config.evaluations)
        while position.done < len(batches) and self.record.stale < self.config.patience:
            self._step(batches[position.done])
            position.done += 1
            last = position.done == len(batches)
            evaluate_now = last or (position.done % every == 0 and len(batches) - position.done >= every)
            if evaluate_now or position.done % CHECK_INTERVAL == 0:
                self._check_divergence(batches)
            if evaluate_now:
                self._evaluate(batches, last)
            elif position.done % CHECK_INTERVAL == 0:
                self._report()
            if not last:
                yield
        position.epoch, position.done, position.order = position.epoch + 1, 0, dict(self.order.bit_generator.state)
        yield

    def _step(self, rows: Rows) -> None:
        """Train on `rows`; if out of memory, take this and all later batches in two halves, weighted by `shares`."""
        loss = self._try_step(rows)
        if loss is None:
            if self.position.pieces > 1 or len(rows) == 1:
                raise TryAgainError(
                    f"out of memory at step {self.position.step + 1}, on {len(rows)} texts of up to "
                    f"{self.train.lengths[rows].max()} tokens in halved batches; free memory and rerun, or lower "
                    "train.batch_size, train.max_tokens or train.max_length"
                )
            self.position.pieces = 2
            if self.checkpoints:
                self.checkpoints.halved = True
            self._report("out of memory; each batch is split into two halves from now on")
            return self._step(rows)
        self.schedule.step()
        self.position.step += 1
        self._update_running_loss(loss)
        return None

    def _update_running_loss(self, loss: Tensor) -> None:
        """Update the mean loss with a finite loss; store the step of the first loss that is NaN or infinite."""
        finite, step = loss.isfinite(), self.position.step
        mean = loss if step == self.position.rollback_step + 1 else torch.lerp(self.running, loss, 0.05)
        self.running = torch.where(finite, mean, self.running)
        self.diverged = torch.where(~finite & (self.diverged < 0), step, self.diverged)

    def _try_step(self, rows: Rows) -> Tensor | None:
        """Return the loss of a step, or None if out of memory."""
        self.model.train()
        try:
            return optimizer_step(self.model, self._losses(rows), self.optimizer, self.config.clip)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        return None  # not in the handler, whose error keeps the memory in use

    def _losses(self, rows: Rows) -> Iterator[Tensor]:
        for piece, weight in parallel.split_batch(rows, self.model, self.position.pieces):
            with matmul_precision(self.config.precision, self.train.device):
                loss = self.model(self.train.gather(piece), self.train.targets(piece)).loss * weight
            yield loss

    def _check_divergence(self, batches: list[Rows]) -> None:
        """Roll back, or raise DivergedError, if a loss since the last check was NaN or infinite."""
        position, step = self.position, int(self.diverged)
        if step < 0:
            return None
        rows = batches[position.done - 1 - (position.step - step)]
        if position.rollbacks < self.config.rollbacks:
            return self._roll_back(
                f"loss is NaN or infinite at step {step}; rolled back to the best weights, learning rate halved"
            )
        shown = ", ".join(map(str, rows[:ROWS_SHOWN])) + (" …" if len(rows) > ROWS_SHOWN else "")
        raise DivergedError(
            f"loss is NaN or infinite at step {step} (epoch {position.epoch}), on training rows {shown}; lower "
            "train.learning_rate, or set train.rollbacks to roll back and halve the rate that many times\n"
            f"row numbers, from 0: {', '.join(map(str, rows))}"
        )

    def _roll_back(self, note: str) -> None:
        self.model.load_state_dict(self.best)
        self.optimizer.state.clear()
        scale_learning_rate(self.schedule, ROLLBACK_FACTOR)
        self.diverged.fill_(-1)
        self.position.rollbacks, self.position.rollback_step = self.position.rollbacks + 1, self.position.step
        self._report(note)

    def _evaluate(self, batches: list[Rows], last: bool) -> None:
        """Score dev and store the best weights; after an epoch's `last` batch, a depth controller may drop a layer."""
        record, labels = self.record, self.dev.targets(np.arange(len(self.dev))).cpu().numpy()
        predicted = parallel.predict_synchronized(self.model, self.dev, self.config.precision)
        if not np.isfinite(predicted.logits).all():  # treated as divergence: never the best weights
            self.diverged.fill_(self.position.step)
            return self._check_divergence(batches)
        if last and predicted.parts is not None and self.model.adapt(predicted.scores(labels)):  # DMSP, Algorithm 1
            predicted = parallel.predict_synchronized(self.model, self.dev, self.config.precision)
        if self.model.depth != record.depth:  # a layer was dropped: restart the search for the best weights
            record.depth, record.score, record.stale = self.model.depth, Record().score, 0
        score, loss = dev_score(predicted, self.dev, self.config.stop_on), predicted.loss(labels)
        line = {"epoch": self.position.epoch, "step": self.position.step, "loss": float(self.running)}
        if np.isfinite(line["loss"]):  # NaN before the first finite loss
            record.history.append({**line, "dev": score, "dev_loss": loss})
        record.stale += 1
        if (score, -loss) > record.score:
            record.score, record.epoch, record.stale = (score, -loss), self.position.epoch, 0
            record.accuracy, self.best = predicted.score(labels), copy.deepcopy(self.model.state_dict())
        elif self.config.schedule == "plateau" and record.stale % PLATEAU_EVALUATIONS == 0:
            scale_learning_rate(self.schedule, PLATEAU_FACTOR)
        return self._report()

    def _report(self, note: str = "") -> None:
        if self.report is None:
            return
        position = self.position
        speed, left = estimate_pace(
            time.monotonic() - self.started, position.step - self.first_step, self.steps - position.step
        )
        rate = speed * len(self.train) / self.per_epoch
        dev = max((line["dev"] for line in self.record.history), default=0.0)
        loss = float(self.running)
        self.report(
            Progress(position.epoch, self.config.epochs, position.step, self.steps, loss, dev, rate, left, note)
        )

    def state(self) -> State | None:
        """Return all that the next step depends on; None if a loss since the last check was NaN or infinite."""
        if int(self.diverged) >= 0:
            return None
        state = capture(self.model, self.optimizer, self.schedule)
        best = {f"best.{name}": value for name, value in self.best.items()}
        own = {
            "record": asdict(self.record),
            "place": asdict(self.position),
            "dropped": self.model.dropped[self.initial_drops :],
        }
        return State({**state.tensors, **best, "running": self.running}, {**state.facts, **own})

    def _resume(self) -> None:
        """Resume from the latest checkpoint, if there is one."""
        state = self.checkpoints.latest() if self.checkpoints else None
        if state is None:
            return
        facts, record = state.facts, state.facts["record"]
        for layer in facts["dropped"]:
            self.model.drop(layer)
        restore(state, self.model, self.optimizer, self.schedule)
        self.best, self.running = state.part("best"), state.tensors["running"].to(self.running.device)
        self.record = Record(**{**record, "score": tuple(record["score"])})
        self.position = Position(**facts["place"])
        self.order.bit_generator.state = self.position.order
        self.first_step = self.position.step
        self._report(f"resuming from step {self.position.step:,} of {self.steps:,}")
