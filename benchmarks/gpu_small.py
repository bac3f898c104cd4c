"""Small models on data in GPU memory: captured steps (CUDA graphs), our loop, and a plain loop with padded batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.gpu_data import DEVICE, PAD, seconds, split, system, texts_of
from benchmarks.plain_loop import Batch, examples_of, padded_batches
from benchmarks.rows import Measured, Row
from benchmarks.timing import Plan
from epigram.models.batches import TextBatches
from epigram.models.precision import matmul_precision
from epigram.models.predict import predict
from epigram.models.registry import RECIPES
from epigram.nn.layers.types import Tokens
from epigram.text.encoded_dataset import Split
from epigram.training.config import TrainingConfig
from epigram.training.cuda_graphs import GraphSteps
from epigram.training.objectives.label_objective import label_objective
from epigram.training.optimization import build_optimizer, build_schedule
from epigram.training.trainer import Trainer

SYSTEMS = ("textcnn", "dmsp", "transformer")
LENGTH, BATCH, STEPS = 32, 64, 1_000
SETTINGS = {"max_length": LENGTH, "batch": BATCH, "steps": STEPS}
PEER = "plain PyTorch loop, padded to max_length, the same precision"


class Captured:
    """Training of a model by captured steps; several epochs use the same CUDA graphs."""

    def __init__(self, model: nn.Module, texts: TextBatches, config: TrainingConfig, epochs: int) -> None:
        self.texts, self.config, self.order = texts, config, np.random.default_rng(0)
        self.optimizer = build_optimizer(model, config, config.learning_rate)
        self.schedule = build_schedule(self.optimizer, config, epochs * len(texts) // config.batch_size)
        self.steps = GraphSteps(model, texts, self.optimizer, config)

    def epoch(self) -> int:
        """Train one epoch and return its number of steps."""
        batches = self.texts.epoch(self.order, self.config.batch_size, self.config.max_tokens)
        for rows in batches:
            self.steps(rows)
            self.schedule.step()
        return len(batches)


def moved(batches: Any) -> Iterator[Batch]:
    """Yield the batches of a DataLoader on the device."""
    for tokens, labels in batches:
        yield Tokens(tokens.ids.to(DEVICE), tokens.valid.to(DEVICE)), labels.to(DEVICE)


def plain_epoch(model: nn.Module, batches: Any, config: TrainingConfig, rates: Any) -> int:
    """Train one epoch as in a tutorial, in the same precision, and return its number of steps."""
    model.train()
    for tokens, labels in moved(batches):
        with matmul_precision(config.precision, DEVICE):
            loss = model(tokens, labels).loss
        rates.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip or 1.0)
        rates.optimizer.step()
        rates.step()
        loss.item()
    return len(batches)


def accuracy(model: nn.Module, dev: TextBatches) -> float:
    """Return the accuracy in percent."""
    return 100 * predict(model, dev).score(dev.targets(np.arange(len(dev))).cpu().numpy())


def system_rows(plan: Plan, name: str, part: Split, dev_part: Split) -> list[Row]:
    """Return steps per second of all three, and the dev accuracy with captured steps and with the plain loop."""
    config = TrainingConfig(**{**RECIPES[name].train, "epochs": 1, "batch_size": BATCH, "max_length": LENGTH})
    texts, dev = texts_of(part, LENGTH), texts_of(dev_part, LENGTH)
    few = texts_of(split(8, LENGTH, seed=2), LENGTH)
    model, other = system(name, LENGTH), system(name, LENGTH)
    captured = Captured(model, texts, config, 1 if plan.tiny else 8)
    start = perf_counter()
    captured.epoch()
    first = perf_counter() - start
    batches = padded_batches(examples_of(part), PAD, BATCH, padding="to max_length", longest=LENGTH)
    plain = torch.optim.AdamW(other.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    rates = build_schedule(plain, replace(config, schedule="constant"), len(batches))
    plain_epoch(other, batches, config, rates)
    learnt = Measured((accuracy(model, dev),)), Measured((accuracy(other, dev),))

    def looped() -> int:
        trainer = Trainer(system(name, LENGTH), label_objective(texts, few, config), seed=0)
        trainer.run()
        return trainer.position.step

    def rate(epoch: Callable[[], int]) -> dict[str, float]:
        done: list[int] = []
        taken = seconds(lambda: done.append(epoch()))
        return {"steps/s": done[0] / taken, "s": taken}

    mine, loop, slow = plan.alternate(
        lambda: rate(captured.epoch),
        lambda: rate(looped),
        lambda: rate(lambda: plain_epoch(other, batches, config, rates)),
    )
    work = f"{name}, {BATCH} texts of {LENGTH // 4} to {LENGTH} tokens"
    return [
        Row(f"{work}, captured steps", "steps/s", mine["steps/s"], {PEER: slow["steps/s"]}),
        Row(f"{work}, our loop", "steps/s", loop["steps/s"], {PEER: slow["steps/s"]}),
        Row(f"{work}, first captured epoch less another", "s", Measured((first - mine["s"].median,))),
        Row(f"{work}, dev accuracy after an epoch, captured", "%", learnt[0], {PEER: learnt[1]}),
    ]


def rows(plan: Plan) -> list[Row]:
    """Return the rows of every system.

    A step that reads from the device cannot be captured; its system is left out with a message.
    """
    part = split(BATCH * (3 if plan.tiny else STEPS), LENGTH, shortest=0.25)
    dev, found = split(plan.size(2_000), LENGTH, shortest=0.25, seed=1), []
    for name in SYSTEMS:
        try:
            found += system_rows(plan, name, part, dev)
        except RuntimeError as error:
            if "captur" not in str(error):
                raise
            print(f"{name}: left out, its step cannot be captured: {error}", file=sys.stderr)
    return found
