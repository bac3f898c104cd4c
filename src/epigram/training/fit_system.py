"""Training of one system with one seed on one view."""

from __future__ import annotations

from typing import Any

import torch

from epigram.inference.predictors.dataset_batches import (
    batches_of,
    taught_batches,
    template_of,
)
from epigram.models.batches import TextBatches
from epigram.models.devices import default_device
from epigram.models.predict import Array
from epigram.training import fitters
from epigram.training.fitters import FitOptions, Trained
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.progress import Report
from epigram.training.system_setup import ModelSetup


def fit_system(
    setup: ModelSetup,
    *,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
    choice: Any = None,
    targets: Array | None = None,
) -> Trained:
    """Build a system, train it and select the weights on dev.

    With `checkpoints`, gradient-based training resumes from the latest checkpoint. With the `choice` of a
    cross-validation, dev is not used. With `targets` (N + M, C), the model learns these probabilities of the texts of
    train and of those without labels.
    """
    model, train, dev = prepare(setup, targets)
    options = options_of(setup, report=report, checkpoints=checkpoints, choice=choice)
    trained = fitters.KINDS[setup.recipe.kind](model, train, dev if choice is None else None, options)
    model.to(default_device())
    return trained


def options_of(setup: ModelSetup, **more: Any) -> FitOptions:
    """Return the options of a fitter; `more` are fields of FitOptions that the setup does not have."""
    return FitOptions(config=setup.config, path=setup.path, seed=setup.seed, metric=setup.metric, **more)


def prepare(setup: ModelSetup, targets: Array | None = None) -> tuple[Any, TextBatches, TextBatches]:
    """Return the untrained model, the batches of train, with `targets` if given, and the batches of dev."""
    recipe, config, view, seed = setup.recipe, setup.config, setup.view, setup.seed
    torch.manual_seed(seed)
    device = default_device() if recipe.has_encoder else torch.device("cpu")  # NumPy fits models without an encoder
    model: Any = recipe.build(setup.data, setup.path).to(device)
    frame = template_of(view, config.max_length, model)
    dev = batches_of(view, "dev", frame, device)
    if targets is not None:
        return model, taught_batches(view, frame, targets, device), dev
    supervision = config.token_supervision, seed
    train = batches_of(view, "train", frame, device, token_supervision=supervision, label_names=recipe.uses_label_names)
    return model, train, dev
