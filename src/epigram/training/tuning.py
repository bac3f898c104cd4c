"""Tuning on the development set after training."""

from __future__ import annotations

from typing import Any

from epigram.evaluation.thresholds import tuned_thresholds
from epigram.inference.dataset_batches import batches_of, default_device
from epigram.models.classifier import decodes
from epigram.models.precision import Precision
from epigram.models.predict import predict
from epigram.models.text_template import TextTemplate
from epigram.text.encoded_dataset import View


def tune_thresholds(model: Any, view: View, frame: TextTemplate, precision: Precision) -> list[float] | None:
    """Return the threshold of every label (C,) with the best micro-F1 on dev; None if a text has one label.

    The thresholds are 0.5 if the model's head chooses the labels itself.
    """
    if view.task != "multi":
        return None
    if decodes(model):
        return [0.5] * len(view.labels)
    dev = batches_of(view, "dev", frame, default_device())
    probabilities = predict(model, dev, precision=precision).probabilities
    thresholds: list[float] = tuned_thresholds(view.split("dev").labels > 0, probabilities).tolist()
    return thresholds
