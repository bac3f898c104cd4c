"""Tuning on held-out texts after training: the temperature of the probabilities, and the thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.tuning.temperature import fit_temperature
from epigram.evaluation.tuning.thresholds import tuned_thresholds
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.models.classifier import NeuralClassifier, decodes
from epigram.models.devices import default_device
from epigram.models.precision import Precision
from epigram.models.predict import Predicted, predict
from epigram.models.text_template import TextTemplate
from epigram.text.dataset.encoded_dataset import View


def tune(
    model: Any, view: View, frame: TextTemplate, precision: Precision, *, per_label: bool = False
) -> list[float] | None:
    """Set the temperature of a classifier, which is 1 before, and return the threshold of every label (C,), by dev."""
    if not isinstance(model, NeuralClassifier) and view.task != "multi":
        return None
    predicted = predict(model, batches_of(view, "dev", frame, default_device()), precision=precision)
    return tune_by(model, predicted, np.asarray(view.split("dev").labels), per_label=per_label)


def tune_by(
    model: Any, predicted: Predicted, labels: NDArray[np.integer], *, per_label: bool = False
) -> list[float] | None:
    """Set the temperature of a classifier, and return the threshold of every label (C,).

    `predicted` are predictions with temperature 1 for held-out texts, whose labels are class indices (N,) or indicators
    (N, C). The temperature has the lowest cross-entropy. Models other than classifiers calibrate themselves when they
    are fitted. The thresholds have the best micro-F1, or each the best F1 of its label (`per_label`); they are 0.5 if
    the model's head chooses the labels itself, and None if a text has one label.
    """
    if isinstance(model, NeuralClassifier):
        predicted, temperature = calibrated(predicted, labels)
        model.temperature.fill_(temperature)
    if not predicted.multi:
        return None
    if decodes(model):
        return [0.5] * predicted.logits.shape[1]
    thresholds: list[float] = tuned_thresholds(labels > 0, predicted.probabilities, per_label=per_label).tolist()
    return thresholds


def cross_calibrated(
    model: Any, predicted: Predicted, labels: NDArray[np.integer], fold: NDArray[np.integer]
) -> Predicted:
    """Return the out-of-fold predictions of a classifier, each fold (N,) with the temperature of the other folds."""
    if not isinstance(model, NeuralClassifier):
        return predicted
    logits = np.empty_like(predicted.logits)
    for number in np.unique(fold):
        rows = fold == number
        _, temperature = calibrated(replace(predicted, logits=predicted.logits[~rows]), labels[~rows])
        logits[rows] = predicted.logits[rows] / np.float32(temperature)
    return replace(predicted, logits=logits)


def calibrated(predicted: Predicted, labels: NDArray[np.integer]) -> tuple[Predicted, float]:
    """Return the predictions with the best temperature for the `labels`, (N,) or (N, C), and the temperature."""
    gold = labels > 0 if predicted.multi else labels[:, None] == np.arange(predicted.logits.shape[1])
    temperature = fit_temperature(predicted.logits, gold, multi=predicted.multi)
    return replace(predicted, logits=predicted.logits / np.float32(temperature)), temperature
