"""Training on short titles: our loop against a plain one, the same model, one thread."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import plain_loop
from benchmarks.batches import texts_of
from benchmarks.corpora import chosen, encoded
from benchmarks.timing import Plan, Reach, Row
from pithy.layers.dropout import Dropout, replaced
from pithy.systems.registry import RECIPES
from pithy.text.view import Split, View
from pithy.training.config import configure
from pithy.training.loop import Trainer
from pithy.training.views import context_of

SYSTEMS = ("textcnn", "dpcnn", "att_blstm", "transformer")
LENGTH = 32  # tokens; the plain loop pads every title to it
TITLES, DEV = 1_500, 500


def system_rows(plan: Plan, name: str, view: View, train: Split, dev: Split) -> list[Row]:
    """One epoch and one look at dev, from arrays to a trained model."""
    recipe = RECIPES[name]
    config = replace(configure(name, recipe), epochs=1, max_length=LENGTH)
    seeds = count()  # another one for every run: the ranges of the accuracies say what a draw is worth

    def fresh(seed: int) -> Any:
        torch.manual_seed(seed)
        return recipe.build(context_of(view, LENGTH), name)

    def ours() -> dict[str, float]:
        seed = next(seeds)
        model, start = fresh(seed), perf_counter()
        record = Trainer(model, texts_of(view, train, LENGTH), texts_of(view, dev, LENGTH), config, seed=seed).run()
        return {"titles/s": len(train) / (perf_counter() - start), "%": 100 * record.score[0]}

    def peer() -> dict[str, float]:
        model, start = replaced(fresh(next(seeds)), Dropout, nn.Dropout), perf_counter()
        plain_loop.train(model, train, view.pad_id, config)
        share = plain_loop.accuracy(model, dev, view.pad_id, config)
        return {"titles/s": len(train) / (perf_counter() - start), "%": 100 * share}

    mine, other = plan.alternate(ours, peer)
    return [
        Row(
            f"{name}, 1 epoch / plain loop, padded to {LENGTH}",
            "titles/s",
            mine["titles/s"],
            other["titles/s"],
            Reach("≥", 2.5, "ratio"),
        ),
        Row(f"{name}, dev accuracy after it", "%", mine["%"], other["%"]),
    ]


def rows(plan: Plan) -> list[Row]:
    """Throughput and dev accuracy of every system."""
    torch.set_num_threads(1)
    view = View.load(encoded(plan.scratch, plan.size(10_000), plan.size(10_000)))
    train, dev = (
        chosen(view.split(name), np.arange(min(plan.size(most), len(view.split(name)))))
        for name, most in (("train", TITLES), ("dev", DEV))
    )
    return [row for name in SYSTEMS for row in system_rows(plan, name, view, train, dev)]
