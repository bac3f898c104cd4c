"""Equal work for both sides of a training benchmark: the same texts and steps after an untimed warm-up."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from benchmarks.batches import texts_of
from benchmarks.corpora import chosen, drawn
from benchmarks.plain_loop import Example, Settings, examples_of
from benchmarks.plain_loop import train as train_plain
from benchmarks.timing import Plan
from epigram.models.batches import TextBatches
from epigram.text.dataset.encoded_dataset import Split, View
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective

STEPS, WARM_UP = 50, 5


def parts(plan: Plan, view: View, batch: int, steps: int = STEPS) -> tuple[Split, Split]:
    """Return the texts of the warm-up and of the timed steps, drawn at random from train."""
    steps = max(2, plan.size(steps))
    part = drawn(view.split("train"), batch * (WARM_UP + steps))
    cut = batch * (1 if plan.tiny else WARM_UP)
    return chosen(part, range(cut)), chosen(part, range(cut, cut + batch * steps))


def our_run(model: Any, view: View, split: tuple[Split, Split], config: TrainingConfig) -> float:
    """Return the seconds of our loop for one epoch on the timed texts; it evaluates on a single dev text.

    The clock includes the construction of the optimizer and of the batches, as it does for the peers.
    """
    one = texts_of(view, chosen(view.split("dev"), [0]), config.max_length)
    warm_up, timed = (texts_of(view, part, config.max_length) for part in split)

    def run(train: TextBatches) -> None:
        Trainer(model, label_objective(train, one, config), seed=0).run()

    run(warm_up)
    return seconds(lambda: run(timed))


def plain_run(
    model: torch.nn.Module,
    pad_id: int,
    split: tuple[list[Example], list[Example]],
    config: TrainingConfig,
    how: Settings,
) -> float:
    """Return the seconds of the plain loop for one epoch on the timed texts."""
    warm_up, timed = split
    train_plain(model, warm_up, pad_id, config, how)
    return seconds(lambda: train_plain(model, timed, pad_id, config, how))


def examples_of_both(split: tuple[Split, Split]) -> tuple[list[Example], list[Example]]:
    """Return both parts in the format of the plain loop."""
    return examples_of(split[0]), examples_of(split[1])


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = perf_counter()
    work()
    return perf_counter() - start
