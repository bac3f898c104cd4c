"""Number of CPU threads that a system trains with."""

from __future__ import annotations

import os
from dataclasses import replace

from epigram.core.machine import count_processors
from epigram.models.recipe import Recipe
from epigram.training.config import TrainingConfig


def resolve_threads(config: TrainingConfig, recipe: Recipe, checkpoint: str | None) -> TrainingConfig:
    """Return `config`, whose number of processes is resolved, with `threads: auto` resolved to a number.

    A pretrained encoder that starts from a `checkpoint` gets all cores, a Universal Sentence Encoder only if it is
    trained. Every other system gets one core, because small models lose more time by waiting for threads than they gain
    from them.
    """
    if config.threads != "auto":
        return config
    kind = recipe.encoder.get("kind")
    large = checkpoint is not None and (kind == "pretrained" or (kind == "sentence_encoder" and recipe.by_gradient))
    return replace(config, threads=available_cores(int(config.processes)) if large else 1)


def available_cores(processes: int = 1) -> int:
    """Return the number of cores for each of the `processes` of a training, or of those that torchrun started here."""
    return max(1, count_processors() // int(os.environ.get("LOCAL_WORLD_SIZE", processes)))
