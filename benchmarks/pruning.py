"""Depth-pruned against full: what the prune stage makes of a trained Transformer, on each data set.

By the rule `shallowest`, at no more than 0.2 points: the paper's rules keep all layers where all are good.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import torch

from benchmarks.batches import texts_of
from benchmarks.corpora import ENGLISH, MIRROR, chosen, staged
from benchmarks.timing import Measured, Plan, Reach, Row
from pithy.pruning.depth import prune
from pithy.settings import PruneSettings
from pithy.systems.registry import RECIPES
from pithy.text.view import View
from pithy.training.batches import TextBatches
from pithy.training.config import configure
from pithy.training.loop import Trainer
from pithy.training.predict import predict
from pithy.training.views import context_of

SYSTEM, EPOCHS = "transformer", 3
TRAIN, DEV = 5_000, 2_000  # texts, at most
SOURCES = (ENGLISH, "ced") if MIRROR else (ENGLISH,)
LOST = 0.002  # of dev accuracy, at most
THREADS = 2


def source_rows(plan: Plan, name: str, view: View) -> list[Row]:
    """Train, prune, then answer for dev with both depths in turn."""
    recipe = RECIPES[SYSTEM]
    config = replace(configure(SYSTEM, recipe), epochs=EPOCHS)
    draw = np.random.default_rng(0)

    def some(split: str, most: int) -> TextBatches:
        part = view.split(split)
        rows = draw.choice(len(part), min(len(part), plan.size(most)), replace=False)
        return texts_of(view, chosen(part, rows), config.max_length)

    train, dev = some("train", TRAIN), some("dev", DEV)
    torch.manual_seed(0)
    full = recipe.build(context_of(view, config.max_length), SYSTEM)
    Trainer(full, train, dev, config, seed=0).run()
    pruned = prune(
        full,
        train,
        dev,
        classes=len(view.labels),
        settings=PruneSettings(rule="shallowest", tolerance=LOST),
        config=config,
        rate=config.learning_rate,
        seed=0,
    )

    def answer(model: torch.nn.Module) -> dict[str, float]:
        start = perf_counter()
        predict(model, dev)
        return {"texts/s": len(dev) / (perf_counter() - start)}

    mine, other = plan.alternate(lambda: answer(pruned.model), lambda: answer(full))
    depths = f"{pruned.model.depth} of {full.depth} layers"
    lost = Measured((100 * (pruned.dev_before - pruned.dev_after) if pruned.accepted else 0.0,))
    return [
        Row(
            f"{SYSTEM}, {name}, pruned to {depths} / full",
            "texts/s",
            mine["texts/s"],
            other["texts/s"],
            Reach("≥", 1.25, "ratio"),
        ),
        Row("the same, dev points lost", "points", lost, reach=Reach("≤", 100 * LOST)),
    ]


def rows(plan: Plan) -> list[Row]:
    """Inference and accuracy at both depths."""
    torch.set_num_threads(THREADS)
    found = {name: staged(plan.scratch, name, "token", tokenizer="token") for name in SOURCES}
    return [row for name, folder in found.items() for row in source_rows(plan, name, View.load(folder))]
