"""Tuning on the development set after training: the temperature of the probabilities, and the thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from epigram.evaluation.temperature import fit_temperature
from epigram.evaluation.thresholds import tuned_thresholds
from epigram.inference.dataset_batches import batches_of, default_device
from epigram.models.classifier import Classifier, decodes
from epigram.models.precision import Precision
from epigram.models.predict import Predicted, predict
from epigram.models.text_template import TextTemplate
from epigram.text.encoded_dataset import View


def tune(model: Any, view: View, frame: TextTemplate, precision: Precision) -> list[float] | None:
    """Set the temperature of a classifier, which is 1 before, and return the threshold of every label (C,).

    The temperature has the lowest cross-entropy on dev. Other models calibrate themselves when they are fitted. The
    thresholds have the best micro-F1 on dev; they are 0.5 if the model's head chooses the labels itself, and None if a
    text has one label.
    """
    calibrates, several = isinstance(model, Classifier), view.task == "multi"
    if not calibrates and not several:
        return None
    predicted = predict(model, batches_of(view, "dev", frame, default_device()), precision=precision)
    if calibrates:
        predicted = _calibrate(model, predicted, view)
    if not several:
        return None
    if decodes(model):
        return [0.5] * len(view.labels)
    thresholds: list[float] = tuned_thresholds(view.split("dev").labels > 0, predicted.probabilities).tolist()
    return thresholds


def _calibrate(model: Classifier, predicted: Predicted, view: View) -> Predicted:
    """Set the model's temperature, and return the predictions with it."""
    labels, classes = np.asarray(view.split("dev").labels), np.arange(len(view.labels))
    gold = labels > 0 if predicted.multi else labels[:, None] == classes
    temperature = fit_temperature(predicted.logits, gold, multi=predicted.multi)
    model.temperature.fill_(temperature)
    return replace(predicted, logits=predicted.logits / np.float32(temperature))
