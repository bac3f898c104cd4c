"""Start of a linear head: the logistic regression on the encodings of the encoder before its training.

A head with random weights takes some hundred steps to learn what a regression finds in seconds.
"""

from __future__ import annotations

import numpy as np

from epigram.core.effects import unused
from epigram.evaluation.metrics.primary import PrimaryMetric
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.training.config import ClassWeight, TrainingConfig
from epigram.training.fitters import frozen_classifier

ROWS = 2_000  # texts of the regression at most
JUDGES = 10  # one of so many texts judges the penalty


def can_fit_head(model: NeuralClassifier, train: TextBatches) -> bool:
    """Return whether the head can start from a regression on `train`: not on one text, nor on a student's labels.

    The labels of a student are probabilities.
    """
    classes = train.labels is not None and not train.labels.is_floating_point()
    without_effect = unused(TrainingConfig(), "train", {"head": model.head.config})
    return classes and len(train) > 1 and "train.fitted_head" not in without_effect


def fit_head(model: NeuralClassifier, train: TextBatches, class_weight: ClassWeight, metric: PrimaryMetric) -> None:
    """Set the head of `model` to the regression on at most ROWS random texts of `train`; dev has no part in it."""
    rows = np.random.default_rng(0).permutation(len(train))[:ROWS]
    judges = max(1, len(rows) // JUDGES)
    frozen_classifier.fit(model, train.part(rows[judges:]), train.part(rows[:judges]), class_weight, metric)
