"""Tests of capturable training steps: they equal the Trainer's own steps and read nothing from the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.cuda_graphs import GraphSteps
from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.recipe import ENCODERS, HEADS, parse_part
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig
from epigram.training.loop.optimization import build_optimizer, build_schedule
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.base import Batch
from epigram.training.objectives.label_objective import label_objective
from tests.support.host_waits import Waits

CONFIG = TrainingConfig(epochs=1, batch_size=8, warmup=0.5, epsilon=1e-4, precision="fp32")  # ε exceeds rounding errors


def texts() -> TextBatches:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 21, 50)
    return TextBatches(
        Ragged.from_lengths(random.integers(2, 40, lengths.sum()), lengths),
        prefix=[],
        suffix=[],
        max_length=20,
        pad_id=0,
        unk_id=1,
        labels=random.integers(0, 3, 50),
    )


def model_of(name: str, **changes: Any) -> NeuralClassifier:
    """Return the model of a registered system without dropout."""
    recipe = RECIPES[name].changed(encoder={"dropout": 0.0, **changes}, head={}, train={})
    context = DataSpec(vocabulary=40, classes=3, max_length=20, pos_weight=torch.ones(40))
    torch.manual_seed(0)
    encoder = parse_part(ENCODERS, recipe.encoder, "encoder").build(context)
    head = parse_part(HEADS, recipe.head, "head")
    return NeuralClassifier(
        encoder, (replace(head, dropout=0.0) if hasattr(head, "dropout") else head).build(context, encoder)
    )


@pytest.mark.parametrize(
    ("name", "changes"), [("textcnn", {}), ("transformer", {}), ("dmsp", {"order": "expectation"})]
)
def test_steps_train_as_the_trainer_does(name: str, changes: dict[str, Any]) -> None:
    one, other, data = model_of(name, **changes), model_of(name, **changes), texts()
    trainer = Trainer(one, label_objective(data, data, CONFIG), seed=3)
    used = build_optimizer(other, CONFIG)
    rates = build_schedule(used, CONFIG, trainer.steps)
    steps = GraphSteps(other, data, used, CONFIG)
    for rows in data.epoch(np.random.default_rng(3), CONFIG.batch_size, CONFIG.max_tokens):
        trainer.step(Batch(data, rows))
        loss = steps(rows)
        rates.step()
    assert loss.shape == ()
    for key, weights in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[key], weights, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", ["textcnn", "dmsp"])
def test_a_step_reads_nothing_from_the_device(name: str) -> None:
    model, data = model_of(name), texts()
    steps = GraphSteps(model, data, build_optimizer(model, CONFIG), CONFIG)
    with Waits() as waits:
        steps(np.arange(8))
    assert not waits.found
