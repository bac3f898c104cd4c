"""Tuning on held-out texts after training: the temperature of the probabilities, and the thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.temperature import fit_temperature
from epigram.evaluation.thresholds import tuned_thresholds
from epigram.inference.dataset_batches import batches_of, default_device
from epigram.models.classifier import Classifier, decodes
from epigram.models.precision import Precision
from epigram.models.predict import Array, Predicted, predict
from epigram.models.text_template import TextTemplate
from epigram.text.dataset.encoded_dataset import View
from epigram.training.trained import NestedFold, others, pool


def tune(model: Any, view: View, frame: TextTemplate, precision: Precision) -> list[float] | None:
    """Set the temperature of a classifier, which is 1 before, and return the threshold of every label (C,), by dev."""
    if not isinstance(model, Classifier) and view.task != "multi":
        return None
    predicted = predict(model, batches_of(view, "dev", frame, default_device()), precision=precision)
    return tune_by(model, predicted, np.asarray(view.split("dev").labels))[1]


def tune_by(model: Any, predicted: Predicted, labels: NDArray[np.integer]) -> tuple[Predicted, list[float] | None]:
    """Set the temperature of a classifier, and return the predictions with it, and the threshold of every label (C,).

    `predicted` are those with temperature 1 for held-out texts, whose labels are class indices (N,) or indicators
    (N, C). The temperature has the lowest cross-entropy. Models other than classifiers calibrate themselves when they
    are fitted. The thresholds have the best micro-F1; they are 0.5 if the model's head chooses the labels itself, and
    None if a text has one label.
    """
    if isinstance(model, Classifier):
        predicted, temperature = calibrated(predicted, labels)
        model.temperature.fill_(temperature)
    if not predicted.multi:
        return predicted, None
    return predicted, thresholds_of(model, predicted, labels)


def thresholds_of(model: Any, predicted: Predicted, labels: NDArray[np.integer]) -> list[float]:
    """Return the thresholds (C,) with the best micro-F1; they are 0.5 if the model's head chooses the labels itself."""
    if decodes(model):
        return [0.5] * predicted.logits.shape[1]
    thresholds: list[float] = tuned_thresholds(labels > 0, predicted.probabilities).tolist()
    return thresholds


def tune_nested(
    model: Any, folds: Sequence[NestedFold], labels: NDArray[np.integer], fold: NDArray[np.integer]
) -> tuple[Array, Array | None]:
    """Return the logits (N, C) of a nested cross-validation, and the thresholds of each row, (N, C).

    Temperature and thresholds of a fold are tuned on the predictions for the others, as in `tune_by`. `labels` are
    those of all rows, and `fold` (N,) is the fold of each row; folds have the order of the rows.
    """
    multi = folds[0].own.multi
    logits = np.empty((len(fold), folds[0].own.logits.shape[1]), np.float32)
    thresholds = np.empty_like(logits) if multi else None
    for number, each in enumerate(folds):
        judges, rows = pool(each.others), fold == number
        wanted = np.concatenate([labels[fold == other] for other in others(range(len(folds)), number)])
        temperature = 1.0
        if isinstance(model, Classifier):
            judges, temperature = calibrated(judges, wanted)
        logits[rows] = each.own.logits / np.float32(temperature)
        if thresholds is not None:
            thresholds[rows] = thresholds_of(model, judges, wanted)
    return logits, thresholds


def calibrated(predicted: Predicted, labels: NDArray[np.integer]) -> tuple[Predicted, float]:
    """Return the predictions with the best temperature for the `labels`, (N,) or (N, C), and the temperature."""
    gold = labels > 0 if predicted.multi else labels[:, None] == np.arange(predicted.logits.shape[1])
    temperature = fit_temperature(predicted.logits, gold, multi=predicted.multi)
    return replace(predicted, logits=predicted.logits / np.float32(temperature)), temperature
