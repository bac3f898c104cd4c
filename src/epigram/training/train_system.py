"""Training of one system with one seed on one view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from epigram.core.errors import ParameterError
from epigram.inference.dataset_batches import batches_of, data_spec_of, default_device, template_of
from epigram.models.batches import TextBatches
from epigram.models.classifier import count_parameters
from epigram.models.predict import dev_score, predict
from epigram.models.recipe import Recipe
from epigram.text.encoded_dataset import View
from epigram.training import fit_linear_svm, fit_random_baseline
from epigram.training.checkpoint import Checkpoints
from epigram.training.config import TrainingConfig
from epigram.training.history import Report
from epigram.training.objectives.token_labels import label_objective
from epigram.training.trainer import Trainer

FITTERS: dict[str, Callable[..., None]] = {"solver": fit_linear_svm.fit, "counting": fit_random_baseline.fit}


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Trained model with its development score and, if it is trained by gradient, its history."""

    model: Any
    rate: float
    dev_accuracy: float
    epoch: int
    depth: int  # before any layer was dropped
    parameters: int  # before any layer was dropped
    history: list[dict[str, float]]


def learning_rate_of(config: TrainingConfig, view: View) -> float:
    """Return the learning rate: with a checkpoint, the recipe's rate for pretrained weights if it has one."""
    pretrained = view.checkpoint is not None and config.checkpoint_learning_rate is not None
    return config.checkpoint_learning_rate if pretrained else config.learning_rate  # type: ignore[return-value]


def train_system(
    recipe: Recipe,
    config: TrainingConfig,
    view: View,
    *,
    seed: int,
    path: str,
    pretrained: Path | None = None,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> Trained:
    """Build a system, train it and select the weights on dev; `path` is its key in params.yaml, for messages.

    `pretrained` is the folder of an encoder that was pretrained on the view. With `checkpoints`, a training by gradient
    resumes from the latest one.
    """
    torch.manual_seed(seed)
    by_gradient = recipe.fitting == "gradient"
    device = default_device() if by_gradient else torch.device("cpu")  # liblinear runs on the CPU
    frame = template_of(view, config.max_length)
    model: Any = recipe.build(data_spec_of(view, config.max_length, pretrained), path).to(device)
    supervision = (config.token_supervision, seed)
    train = batches_of(view, "train", frame, device, token_supervision=supervision)
    dev = batches_of(view, "dev", frame, device)
    if not by_gradient:
        return _fit(recipe, model, train, dev, seed=seed, path=path)
    depth, size, rate = model.depth, count_parameters(model), learning_rate_of(config, view)
    trainer = Trainer(
        model, label_objective(train, dev, config), seed=seed, rate=rate, report=report, checkpoints=checkpoints
    )
    record = trainer.run()
    return Trained(
        model=model,
        rate=rate,
        dev_accuracy=record.accuracy,
        epoch=record.epoch,
        depth=depth,
        parameters=size,
        history=record.history,
    )


def _fit(recipe: Recipe, model: Any, train: TextBatches, dev: TextBatches, *, seed: int, path: str) -> Trained:
    """Fit a `model` that is not trained by gradient, and move it to the default device."""
    try:
        FITTERS[recipe.fitting](model, train, dev, seed=seed)
    except ParameterError as error:
        raise ParameterError(f"params.yaml: {path}.{error}") from None
    score, size = dev_score(predict(model, dev), dev, "sentence"), count_parameters(model)
    model.to(default_device())
    return Trained(model=model, rate=0.0, dev_accuracy=score, epoch=0, depth=0, parameters=size, history=[])
