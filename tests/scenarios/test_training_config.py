"""Precedence of training settings: a recipe's defaults, then params.yaml's `train`, then the system's own settings."""

from __future__ import annotations

from typing import Any

import pytest

from epigram.models.registry import recipe_of
from epigram.models.settings import System
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
