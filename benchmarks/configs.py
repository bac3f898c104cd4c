"""Training settings as the train stage resolves them, threads included, so that benchmarks measure what users get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from epigram.recipes.registry import RECIPES
from epigram.training.config import TrainingConfig, configure
from epigram.training.distributed.resources import resolve_threads


def config_of(name: str, checkpoint: str | None = None, **changes: Any) -> TrainingConfig:
    """Return the settings of a system's recipe with `changes`; set PyTorch's number of threads to their `threads`."""
    recipe = RECIPES[name].starting_from(checkpoint)
    config = resolve_threads(replace(configure(name, recipe), **changes), recipe, checkpoint)
    torch.set_num_threads(int(config.threads))
    return config
