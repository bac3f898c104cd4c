"""A training of one model: what it needs, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epigram.models.batches import TextBatches
from epigram.models.classifier import count_parameters
from epigram.models.predict import dev_score, predict
from epigram.training.checkpoint import Checkpoints
from epigram.training.config import TrainingConfig
from epigram.training.history import Report


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of a fitter; `path` is the system's key in params.yaml, for messages."""

    config: TrainingConfig
    path: str
    seed: int
    rate: float  # learning rate
    report: Report | None = None
    checkpoints: Checkpoints | None = None


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


def closed_form(model: Any, dev: TextBatches) -> Trained:
    """Return the result for a fitted `model` that is not trained by gradient."""
    score = dev_score(predict(model, dev), dev, "sentence")
    size = count_parameters(model)
    return Trained(model=model, rate=0.0, dev_accuracy=score, epoch=0, depth=0, parameters=size, history=[])
