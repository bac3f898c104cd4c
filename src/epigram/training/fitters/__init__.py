"""Fitters by the kind of the model, with what a fit needs and returns. Each module registers two functions.

They have the kind's name. The first fits a model: it takes the model, the batches of train and of dev, and the options,
and returns the trained model. With a choice in its options it needs no dev. The second fits a model on each fold of
train, and returns what the folds choose together, with their predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from epigram.core.registry import Registry
from epigram.evaluation.metrics.primary import TASK_METRIC, PrimaryMetric
from epigram.models.batches import TextBatches
from epigram.models.classifier import count_parameters
from epigram.models.predict import Array, Predicted, gold_labels, predict
from epigram.training.config import TrainingConfig
from epigram.training.dev_score import metric_score
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.plan import Plan
from epigram.training.loop.progress import Report

T = TypeVar("T")
C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of a fitter; `path` is the system's key in params.yaml, for messages."""

    config: TrainingConfig
    path: str
    seed: int
    metric: PrimaryMetric = TASK_METRIC
    report: Report | None = None
    checkpoints: Checkpoints | None = None
    choice: Any = None  # what a cross-validation chose, for a fit without dev
    keeps_logits: bool = False  # whether to keep each evaluation's logits in a training by gradient


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Trained model with its accuracy and its score on dev and, if it is trained by gradient, its history."""

    model: Any
    dev_accuracy: float
    dev_score: float
    epoch: int
    depth: int  # layers before any was dropped
    parameters: int  # parameters before any layer was dropped
    history: list[dict[str, float]]  # a line for each evaluation
    steps: int = 0  # steps taken, if trained by gradient
    plan: Plan | None = None  # plan for repeating the training, if trained by gradient
    evaluated: Mapping[int, Array] = field(default_factory=dict)  # logits of dev by the step, if the options keep them


@dataclass(frozen=True)
class Fold:
    """One fold of train: `load` returns the untrained model, the other folds, and the held-out fold.

    A training by gradient keeps its result in `folder`, if given, so that it is not repeated.
    """

    load: Callable[[], tuple[Any, TextBatches, TextBatches]]
    options: FitOptions
    folder: Path | None = None


@dataclass(frozen=True)
class FoldResults:
    """What all folds choose together for the final fit, and the predictions for each held-out fold.

    The `predictions` for a fold are made with the choice of the other folds. The final model is tuned by the `judged`
    predictions. `history` is from the fold whose best evaluation is the median, if the model is trained by gradient.
    `votes` are the logits (L, N, C) of classifiers on the L layers for each fold, if no fold has dropped a layer.
    """

    choice: Any
    predictions: list[Predicted]
    judged: list[Predicted]
    history: list[dict[str, float]] = field(default_factory=list)
    votes: list[Array] = field(default_factory=list)


def choose_on_folds(
    folds: Sequence[T], choose: Callable[[Sequence[T]], C], predict: Callable[[T, C], Predicted]
) -> FoldResults:
    """Return the choice by all folds, and the predictions for each fold with the choice by all other folds."""
    choice = choose(folds)
    others = ([each for each in folds if each is not fold] for fold in folds)
    predictions = [predict(fold, choose(rest)) for fold, rest in zip(folds, others, strict=True)]
    return FoldResults(choice, predictions, judged=[predict(fold, choice) for fold in folds])


def pool(predictions: Sequence[Predicted]) -> Predicted:
    """Return the logits of several sets of texts as one."""
    return Predicted(np.concatenate([each.logits for each in predictions]), None, predictions[0].multi)


def closed_form(model: Any, dev: TextBatches | None, metric: PrimaryMetric) -> Trained:
    """Return the result for a fitted `model` that is not trained by gradient; without dev, its scores are 0."""
    accuracy = score = 0.0
    if dev is not None:
        predicted, labels = predict(model, dev), gold_labels(dev)
        accuracy, score = predicted.score(labels), metric_score(predicted, labels, metric)
    size = count_parameters(model)
    return Trained(model=model, dev_accuracy=accuracy, dev_score=score, epoch=0, depth=0, parameters=size, history=[])


KINDS: Registry[Callable[[Any, TextBatches, TextBatches | None, FitOptions], Trained]] = Registry(__name__)
ON_FOLDS: Registry[Callable[[Iterable[Fold]], FoldResults]] = Registry(__name__)
register, register_on_folds = KINDS.register, ON_FOLDS.register
