"""Training of one system with one seed on one view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from epigram.inference.predictors.dataset_batches import (
    batches_of,
    data_spec_of,
    default_device,
    taught_batches,
    template_of,
)
from epigram.models.batches import TextBatches
from epigram.models.predict import Array
from epigram.models.recipe import Recipe
from epigram.text.dataset.encoded_dataset import View
from epigram.training import fitters
from epigram.training.config import TrainingConfig
from epigram.training.fitters import FitOptions, Trained
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.progress import Report


def fit_system(
    recipe: Recipe,
    config: TrainingConfig,
    view: View,
    *,
    seed: int,
    path: str,
    pretrained: Path | None = None,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
    choice: Any = None,
    targets: Array | None = None,
) -> Trained:
    """Build a system, train it and select the weights on dev; `path` is its key in params.yaml, for messages.

    `pretrained` is the folder of an encoder that was pretrained on the view. With `checkpoints`, gradient-based
    training resumes from the latest checkpoint. With the `choice` of a cross-validation, dev is not used. With
    `targets` (N + M, C), the model learns these probabilities of the texts of train and of those without labels.
    """
    model, train, dev = prepare(recipe, config, view, seed, path, pretrained, targets)
    options = FitOptions(
        config=config,
        path=path,
        seed=seed,
        rate=config.learning_rate,
        report=report,
        checkpoints=checkpoints,
        choice=choice,
    )
    trained = fitters.KINDS[recipe.kind](model, train, dev if choice is None else None, options)
    model.to(default_device())
    return trained


def prepare(
    recipe: Recipe,
    config: TrainingConfig,
    view: View,
    seed: int,
    path: str,
    pretrained: Path | None,
    targets: Array | None = None,
) -> tuple[Any, TextBatches, TextBatches]:
    """Return the untrained model, and the batches of train and of dev; those of train have the `targets`, if given."""
    torch.manual_seed(seed)
    device = default_device() if recipe.has_encoder else torch.device("cpu")  # NumPy fits the others
    model: Any = recipe.build(data_spec_of(view, config.max_length, pretrained), path).to(device)
    frame = template_of(view, config.max_length, model)
    dev = batches_of(view, "dev", frame, device)
    if targets is not None:
        return model, taught_batches(view, frame, targets, device), dev
    supervision = config.token_supervision, seed
    train = batches_of(view, "train", frame, device, token_supervision=supervision, label_names=recipe.uses_label_names)
    return model, train, dev
