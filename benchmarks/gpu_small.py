"""Small models on data in GPU memory: captured steps (CUDA graphs), our loop, and a plain loop with a DataLoader."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from torch import Tensor, nn

from benchmarks.cuda_graphs import GraphSteps
from benchmarks.gpu_data import DEVICE, PAD, seconds, split, system, texts_of
from benchmarks.plain_loop import PADDINGS, Batch, Padding, examples_of, name_of, optimizer_of, padded_batches, step
from benchmarks.rows import Measured, Row
from benchmarks.timing import Plan
from epigram.models.batches import TextBatches
from epigram.models.precision import matmul_precision
from epigram.models.predict import predict
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import Split
from epigram.training.config import TrainingConfig
from epigram.training.loop.optimization import build_optimizer, build_schedule
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective

SYSTEMS = ("textcnn", "dmsp", "transformer")
LENGTH, BATCH, STEPS = 32, 64, 1_000
SETTINGS = {"max_length": LENGTH, "batch": BATCH, "steps": STEPS}


class Captured:
    """Training of a model by captured steps; several epochs use the same CUDA graphs."""

    def __init__(self, model: nn.Module, texts: TextBatches, config: TrainingConfig, epochs: int) -> None:
        self.texts, self.config, self.order = texts, config, np.random.default_rng(0)
        self.optimizer = build_optimizer(model, config)
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
    """Yield the batches of a DataLoader on the device, copied from pinned memory without a wait for the device."""
    for tokens, labels in batches:
        yield replace(tokens, ids=copied(tokens.ids), valid=copied(tokens.valid)), copied(labels)


def copied(values: Tensor) -> Tensor:
    """Return `values` on the device."""
    return values.pin_memory().to(DEVICE, non_blocking=True) if DEVICE.type == "cuda" else values


def plain_epoch(model: nn.Module, batches: Any, config: TrainingConfig, rates: Any) -> int:
    """Train one epoch in the same precision, and return its number of steps."""
    model.train()
    for batch in moved(batches):
        step(model, batch, config, rates, matmul_precision(config.precision, DEVICE))
    return len(batches)


def plain_peer(name: str, part: Split, padding: Padding, config: TrainingConfig) -> tuple[nn.Module, Callable[[], int]]:
    """Return a fresh model, and a function that trains it for an epoch in the plain loop."""
    model, batches = (
        system(name, LENGTH),
        padded_batches(examples_of(part), PAD, BATCH, padding=padding, longest=LENGTH),
    )
    rates = build_schedule(optimizer_of(model, config), replace(config, schedule="constant"), len(batches))
    return model, lambda: plain_epoch(model, batches, config, rates)


def accuracy(model: nn.Module, dev: TextBatches) -> float:
    """Return the accuracy in percent."""
    return 100 * predict(model, dev).score(dev.targets(np.arange(len(dev))).cpu().numpy())


def system_rows(plan: Plan, name: str, part: Split, dev_part: Split) -> list[Row]:
    """Return steps per second of ours and of the plain loops, and the dev accuracy of captured and of plain steps."""
    config = TrainingConfig(**{**RECIPES[name].train, "epochs": 1, "batch_size": BATCH, "max_length": LENGTH})
    texts, dev = texts_of(part, LENGTH), texts_of(dev_part, LENGTH)
    few = texts_of(split(8, LENGTH, seed=2), LENGTH)
    model = system(name, LENGTH)
    captured = Captured(model, texts, config, 1 if plan.tiny else 8)
    start = perf_counter()
    captured.epoch()
    first = perf_counter() - start
    plain = {f"{name_of(how)}, the same precision": plain_peer(name, part, how, config) for how in PADDINGS}
    for _, epoch in plain.values():
        epoch()
    learnt = {peer: Measured((accuracy(other, dev),)) for peer, (other, _) in plain.items()}
    mine_learnt = Measured((accuracy(model, dev),))

    def looped() -> int:
        trainer = Trainer(system(name, LENGTH), label_objective(texts, few, config), seed=0)
        trainer.run()
        return trainer.position.step

    def rate(epoch: Callable[[], int]) -> dict[str, float]:
        done: list[int] = []
        taken = seconds(lambda: done.append(epoch()))
        return {"steps/s": done[0] / taken, "s": taken}

    works = (captured.epoch, looped, *(epoch for _, epoch in plain.values()))
    mine, loop, *others = plan.alternate(*(partial(rate, work) for work in works))
    peers = {peer: found["steps/s"] for peer, found in zip(plain, others, strict=True)}
    work = f"{name}, {BATCH} texts of {LENGTH // 4} to {LENGTH} tokens"
    return [
        Row(f"{work}, captured steps", "steps/s", mine["steps/s"], peers),
        Row(f"{work}, our loop", "steps/s", loop["steps/s"], peers),
        Row(f"{work}, first captured epoch less another", "s", Measured((first - mine["s"].median,))),
        Row(f"{work}, dev accuracy after an epoch, captured", "%", mine_learnt, learnt),
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
