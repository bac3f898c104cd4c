"""Model whose dev score and dev loss follow a script, so that each decision of the training loop is known.

A script has one `Dev` for each evaluation: how many of the ten dev texts the model predicts correctly, and with what
margin. The model has one weight, `rise`, whose gradient is -1 at each step. Adam changes such a weight by exactly the
learning rate of the step, so `Run.rates` is the rate that each step used. The buffer `mark` counts the training steps:
it belongs to the state dict and identifies the step whose weights the model ends with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log1p
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.nn.layers.types import Prediction, Tokens
from epigram.training.config import TrainingConfig
from epigram.training.loop.record import Record
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective

DEV, FIRST = 10, 2  # number of dev texts; token id of the first one, followed by those of the others
CONFIG: dict[str, Any] = {
    "batch_size": 4,
    "learning_rate": 0.5,
    "optimizer": "adam",
    "schedule": "constant",
    "warmup": 0.0,
    "weight_decay": 0.0,
    "clip": None,
    "patience": 99,
    "precision": "fp32",
}


class Dev(NamedTuple):
    """Evaluation on dev: `right` of ten texts, with `margin` between the logits of the right and the wrong label."""

    right: int
    margin: float = 1.0

    @property
    def loss(self) -> float:
        """Return the mean of -log p: log(1 + e^-margin) for a right text, log(1 + e) for a wrong one."""
        return (self.right * log1p(exp(-self.margin)) + (DEV - self.right) * log1p(exp(1.0))) / DEV


class Scripted(nn.Module):
    """Model that predicts dev by `script` and counts steps in `mark`; its loss is NaN at the steps `faults`."""

    multi = False

    def __init__(self, script: list[Dev], faults: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.depth = 0
        self.script, self.faults, self.steps, self.evaluations = script, faults, 0, 0
        self.dropped: list[int] = []
        self.rise = nn.Parameter(torch.zeros(1))
        self.register_buffer("mark", torch.zeros(()))
        self.mark: Tensor

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Run a training step if `labels` are given, otherwise the next evaluation of the script."""
        if labels is not None:
            self.steps += 1
            self.mark += 1
            loss = -self.rise.sum() * (float("nan") if self.steps in self.faults else 1.0)
            return Prediction(torch.zeros(len(labels), 2), loss)
        assert len(tokens.ids) == DEV, "dev is one batch"
        right, margin = self.script[self.evaluations]
        self.evaluations += 1
        answers = torch.where(tokens.ids[:, 0] - FIRST < right, margin, -1.0)
        return Prediction(torch.stack([answers, torch.zeros(DEV)], 1))

    def adapt(self, scores: list[float]) -> bool:
        """Fail: the model has no layers."""
        raise AssertionError(scores)


@dataclass
class Run:
    """Scripted training: its `record`, the final `model`, and the learning rate of every step."""

    trainer: Trainer
    model: Scripted
    values: list[float] = field(default_factory=lambda: [0.0])
    notes: list[str] = field(default_factory=list)

    @property
    def record(self) -> Record:
        """Return the training's record of its evaluations."""
        return self.trainer.record

    @property
    def rates(self) -> list[float]:
        """Return the increase of the weight at each step, which is the learning rate."""
        return np.diff(self.values).round(5).tolist()


def texts(count: int) -> TextBatches:
    """Return `count` texts of one token each, all with label 0."""
    ids = Ragged(np.arange(count) + FIRST, np.arange(count + 1))
    return TextBatches(ids, prefix=[], suffix=[], max_length=8, pad_id=0, unk_id=1, labels=np.zeros(count, np.int64))


def prepared(script: list[Dev], *, batches: int = 1, faults: tuple[int, ...] = (), **settings: Any) -> Run:
    """Return a training of `batches` steps per epoch at a constant rate of 0.5, unless `settings` change it."""
    config = TrainingConfig(**{"epochs": len(script), **CONFIG, **settings})
    model = Scripted(script, faults)
    run = Run(Trainer(model, label_objective(texts(batches * config.batch_size), texts(DEV), config), seed=0), model)
    run.trainer.report = lambda progress: run.notes.append(progress.note)
    run.trainer.optimizer.register_step_post_hook(lambda *_: run.values.append(model.rise.item()))
    return run


def trained(script: list[Dev], **settings: Any) -> Run:
    """Return the same training, run to its end."""
    run = prepared(script, **settings)
    run.trainer.run()
    return run
