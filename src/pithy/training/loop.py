"""The training loop. It knows nothing of files, DVC or Prefect: arrays in, a trained model and its history out."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pithy.errors import ParameterError
from pithy.systems.startup import keep_memory
from pithy.training import parallel
from pithy.training.batches import Rows, TextBatches
from pithy.training.config import TrainingConfig
from pithy.training.optimizers import optimizer, schedule, slow_down
from pithy.training.precision import products
from pithy.training.predict import dev_score

STALE, DECAY = 3, 0.9  # schedule `plateau`: after so many evaluations without a gain the rate is multiplied (MHAL)


@dataclass(frozen=True)
class Progress:
    """Where a training stands, for whoever shows it."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    dev: float
    texts_per_second: float
    seconds_left: float


Report = Callable[[Progress], None]


@dataclass
class Record:
    """The best evaluation so far and what led to it."""

    score: tuple[float, float] = (-1.0, float("-inf"))  # what `stop_on` says of dev, then minus dev loss
    accuracy: float = 0.0  # of the texts of dev, or micro-F1, at that evaluation
    epoch: int = 0
    depth: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)
    stale: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


class Trainer:
    """Trains `model` on `train`, chooses the best weights on `dev`, and stops when dev no longer gains."""

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
    ) -> None:
        self.model, self.train, self.dev, self.config, self.report = model, train, dev, config, report
        keep_memory()
        parallel.start(model, seed)
        self.order = np.random.default_rng(seed)
        self.per_epoch = len(train.epoch(np.random.default_rng(seed), config.batch_size, config.max_tokens))
        self.steps = config.epochs * self.per_epoch
        self.optimizer = optimizer(model, config, rate or config.learning_rate)
        self.schedule = schedule(self.optimizer, config, self.steps)
        self.record = Record(depth=model.depth)
        self.step = 0
        self.running = torch.zeros(())  # mean of the last losses, on the device: to read it is to wait for the step
        self.started = time.monotonic()

    def run(self) -> Record:
        """Train to the end; the model holds the best weights afterwards."""
        for epoch in range(1, self.config.epochs + 1):
            self._epoch(epoch)
            if self.record.stale >= self.config.patience:
                break
        self.model.load_state_dict(self.record.weights)
        self.model.eval()
        return self.record

    def _epoch(self, epoch: int) -> None:
        batches = self.train.epoch(self.order, self.config.batch_size, self.config.max_tokens)
        every = max(1, len(batches) // self.config.evaluations)
        for number, rows in enumerate(batches, 1):
            self._step(rows)
            if number == len(batches) or (number % every == 0 and len(batches) - number >= every):
                self._evaluate(epoch)
                if self.record.stale >= self.config.patience:
                    return
            elif number % 20 == 0:
                self._say(epoch)

    def _step(self, rows: Rows) -> None:
        self.model.train()
        rows, weight = parallel.share(rows, self.model)
        with products(self.config.precision, self.train.device):
            loss = self.model(self.train.gather(rows), self.train.targets(rows)).loss * weight
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        loss = parallel.total(self.model, loss)
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        value = loss.detach().float()
        self.running = value if self.step == 1 else torch.lerp(self.running, value, 0.05)

    @property
    def loss(self) -> float:
        """Mean of the last losses. Raises ParameterError where one of them was no number."""
        value = float(self.running)
        if not np.isfinite(value):
            raise ParameterError(f"the loss became {value} by step {self.step}: lower train.learning_rate")
        return value

    def _evaluate(self, epoch: int) -> None:
        """Score dev, let a depth controller act on its layers, and remember the best weights."""
        training_loss = self.loss  # that it is a number comes first
        record, labels = self.record, self.dev.targets(np.arange(len(self.dev))).cpu().numpy()
        predicted = parallel.predicted(self.model, self.dev, self.config.precision)
        if predicted.parts is not None and self.model.adapt(predicted.scores(labels)):
            predicted = parallel.predicted(self.model, self.dev, self.config.precision)
        if self.model.depth != record.depth:  # a layer went: the search for the best starts anew at this depth
            record.depth, record.score, record.stale = self.model.depth, Record().score, 0
        score, loss = dev_score(predicted, self.dev, self.config.stop_on), predicted.loss(labels)
        line = {"epoch": epoch, "step": self.step, "loss": training_loss, "dev": score, "dev_loss": loss}
        record.history.append(line)
        record.stale += 1
        if (score, -loss) > record.score:
            record.score, record.epoch, record.stale = (score, -loss), epoch, 0
            record.accuracy, record.weights = predicted.score(labels), copy.deepcopy(self.model.state_dict())
        elif self.config.schedule == "plateau" and record.stale % STALE == 0:
            slow_down(self.schedule, DECAY)
        self._say(epoch)

    def _say(self, epoch: int) -> None:
        if self.report is None:
            return
        elapsed = time.monotonic() - self.started
        rate = self.step * len(self.train) / self.per_epoch / max(elapsed, 1e-9)
        left = elapsed / self.step * (self.steps - self.step)
        dev = max((line["dev"] for line in self.record.history), default=0.0)
        self.report(Progress(epoch, self.config.epochs, self.step, self.steps, self.loss, dev, rate, left))
