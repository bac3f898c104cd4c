"""Training settings as the train stage resolves them, threads included: what users get is what is measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from pithy.systems.registry import RECIPES
from pithy.training.config import TrainingConfig, configure
from pithy.training.threads import with_threads


def config_of(name: str, checkpoint: str | None = None, **changes: Any) -> TrainingConfig:
    """Settings of a system's recipe with `changes`; PyTorch uses the resolved number of threads from here on."""
    recipe = RECIPES[name]
    config = with_threads(replace(configure(name, recipe), **changes), recipe, checkpoint)
    torch.set_num_threads(int(config.threads))
    return config
