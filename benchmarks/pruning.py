"""A depth-pruned Transformer against the full one after the same fine-tuning, on each data set.

The rule is `shallowest`, with a tolerance of 0.2 points of dev accuracy. Held-out texts measure the loss from pruning.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.batches import texts_of
from benchmarks.configs import config_of
from benchmarks.corpora import PRUNED, chosen, encoded, staged
from benchmarks.intervals import Right, difference
from benchmarks.rows import Reach, Row
from benchmarks.timing import Plan
from epigram.evaluation.metrics.primary import TASK_METRIC
from epigram.inference.predictors.dataset_batches import data_spec_of
from epigram.models.batches import TextBatches
from epigram.models.predict import predict
from epigram.pruning.depth import prune
from epigram.pruning.settings import PruneSettings
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective

SYSTEM, EPOCHS, SEEDS = "transformer", 3, 3
TRAIN, OTHERS = 5_000, 2_000  # maximum number of texts of train, and of each of dev and test
RULE = PruneSettings(rule="shallowest", tolerance=0.002)
SETTINGS = {"epochs": EPOCHS, "fine_tuning_epochs": RULE.epochs, "texts": TRAIN, "rule": RULE.rule, "threads": 1}


@dataclass(frozen=True)
class Data:
    """A sample of each split of a view."""

    name: str
    view: View
    train: TextBatches
    dev: TextBatches
    test: TextBatches

    @property
    def gold(self) -> NDArray[np.int64]:
        """Labels of the held-out texts."""
        return self.test.targets(np.arange(len(self.test))).numpy()


@dataclass(frozen=True)
class Models:
    """The pruned model, and the full model after the same fine-tuning."""

    full: Any
    pruned: Any


def data_of(plan: Plan, name: str, length: int) -> Data:
    """Return the texts of a source of the repository."""
    texts = encoded(plan, TRAIN, OTHERS) if plan.tiny else staged(plan.scratch, name, "token", tokenizer="token")
    view = View.load(texts)
    draw = np.random.default_rng(0)

    def some(split: str, most: int) -> TextBatches:
        part = view.split(split)
        rows = draw.choice(len(part), min(len(part), plan.size(most)), replace=False)
        return texts_of(view, chosen(part, rows), length)

    return Data(name, view, some("train", TRAIN), some("dev", OTHERS), some("test", OTHERS))


def trained(data: Data, config: TrainingConfig, seed: int) -> Models:
    """Train a model, prune a copy of it, and fine-tune the full model for the same number of epochs."""
    torch.manual_seed(seed)
    full: Any = RECIPES[SYSTEM].build(data_spec_of(data.view, config.max_length), SYSTEM)
    Trainer(full, label_objective(data.train, data.dev, config), seed=seed).run()
    pruned = prune(
        copy.deepcopy(full),
        data.train,
        data.dev,
        classes=len(data.view.labels),
        settings=RULE,
        config=config,
        metric=TASK_METRIC,
        seed=seed,
    )
    longer = replace(config, epochs=RULE.epochs, warmup=0.0)
    Trainer(full, label_objective(data.train, data.dev, longer), seed=seed).run()
    return Models(full, pruned.model)


def right(model: Any, data: Data) -> Right:
    """Return whether the model is right on each held-out text, (N,)."""
    return np.asarray(predict(model, data.test).logits.argmax(1) == data.gold)


def source_row(plan: Plan, data: Data, config: TrainingConfig) -> Row:
    """Return texts per second of the pruned and the full model, measured in turn."""
    models = trained(data, config, 0)

    def answer(model: torch.nn.Module) -> dict[str, float]:
        start = perf_counter()
        predict(model, data.test)
        return {"texts/s": len(data.test) / (perf_counter() - start)}

    answer(models.pruned)
    mine, other = plan.alternate(lambda: answer(models.pruned), lambda: answer(models.full))
    work = f"{SYSTEM}, {data.name}, pruned to {models.pruned.depth} of {models.full.depth} layers"
    peers = {"the full model, fine-tuned as long": other["texts/s"]}
    return Row(work, "texts/s", mine["texts/s"], peers, Reach("≥", 1.25, "ratio"), accuracy=f"pruning {data.name}")


def compared(data: Data, config: TrainingConfig) -> dict[str, Any]:
    """Return the held-out accuracy of the pruned model minus that of the full one."""
    found = [trained(data, config, seed) for seed in range(SEEDS)]
    pruned, full = (np.stack([right(getattr(models, kind), data) for models in found]) for kind in ("pruned", "full"))
    peers = {"the full model, fine-tuned as long": full}
    return difference(f"pruning {data.name}", f"{data.name}, held-out test texts", pruned, peers)


def sources(plan: Plan) -> list[tuple[Data, TrainingConfig]]:
    """Return every data set with the training settings."""
    config = config_of(SYSTEM, epochs=EPOCHS)
    return [(data_of(plan, name, config.max_length), config) for name in PRUNED]


def rows(plan: Plan) -> list[Row]:
    """Return the prediction speed of the pruned and the full model, one row per data set."""
    return [source_row(plan, data, config) for data, config in sources(plan)]
