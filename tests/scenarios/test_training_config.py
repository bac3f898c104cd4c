"""Precedence of training settings: a recipe's defaults, then params.yaml's `train`, then the system's own settings."""

from __future__ import annotations

from typing import Any

import pytest

from epigram.models.settings import System
from epigram.recipes.registry import recipe_of
from epigram.training.config import TrainingConfig, configure

# defaults of textcnn: learning_rate 1e-3, batch_size 32, epochs 10, patience 3; of the loop: 1e-3, 64, 20, 5


@pytest.mark.parametrize(
    ("shared", "own", "wanted"),
    [
        ({}, {}, (10, 3, 32, 0.001)),
        ({"epochs": 7}, {}, (7, 3, 32, 0.001)),
        ({"epochs": 7, "patience": 1}, {"epochs": 9, "learning_rate": 0.5}, (9, 1, 32, 0.5)),
        ({}, {"batch_size": 2}, (10, 3, 2, 0.001)),
    ],
)
def test_the_nearer_setting_holds(
    shared: dict[str, Any], own: dict[str, Any], wanted: tuple[int, int, int, float]
) -> None:
    recipe = recipe_of("mine", System(view="v", recipe="textcnn", train=own), shared)
    config = configure("mine", recipe, shared)
    assert (config.epochs, config.patience, config.batch_size, config.learning_rate) == wanted
    assert config.max_tokens == TrainingConfig().max_tokens == 16_384


@pytest.mark.parametrize(
    ("name", "checkpoint", "shared", "own", "wanted"),
    [
        ("bert", None, {}, {}, 5e-4),
        ("bert", "minilm", {}, {}, 5e-5),
        ("bert", "minilm", {"learning_rate": 3e-5}, {}, 3e-5),
        ("bert", "minilm", {"learning_rate": 3e-5}, {"learning_rate": 2e-5}, 2e-5),
        ("bert", "minilm", {}, {"learning_rate": 2e-5}, 2e-5),
        ("bert", None, {}, {"learning_rate": 2e-5}, 2e-5),
        ("macbert", "minilm", {"epochs": 1}, {}, 5e-5),
        ("bert_hth_pta", "minilm", {}, {}, 5e-5),
        ("bert_tagger", "minilm", {}, {}, 5e-5),
        ("textcnn", "minilm", {}, {}, 1e-3),  # it reads no more of the checkpoint than the tokenizer
    ],
)
def test_the_rate_for_a_checkpoint_is_a_default_too(
    name: str, checkpoint: str | None, shared: dict[str, Any], own: dict[str, Any], wanted: float
) -> None:
    recipe = recipe_of("mine", System(view="v", recipe=name, train=own), shared, checkpoint=checkpoint)
    assert configure("mine", recipe, shared).learning_rate == wanted


def test_another_encoder_does_not_train_at_the_rate_of_a_checkpoint() -> None:
    system = System(view="v", recipe="bert", encoder={"kind": "bilstm"})
    assert configure("mine", recipe_of("mine", system, checkpoint="minilm")).learning_rate == 5e-4
