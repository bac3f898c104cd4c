"""Predictions of a model for texts that have one of many labels: only the most probable labels are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from epigram.evaluation.arrays import Ints
from epigram.evaluation.label_probabilities import LabelProbabilities
from epigram.models.batches import TextBatches
from epigram.models.precision import Precision
from epigram.models.predict import Predicted, predict_batches
from epigram.nn.layers.types import Prediction


@dataclass(frozen=True)
class TopPredicted:
    """Probabilities (1, N, C) for N texts, and the label (P, N) by each of P classifiers if the head has several."""

    probabilities: LabelProbabilities
    parts: Ints | None

    def scores(self, labels: NDArray[np.integer]) -> list[float]:
        """Return the accuracy of each part."""
        assert self.parts is not None
        return [float((part == labels).mean()) for part in self.parts]


def predict_top(model: nn.Module, texts: TextBatches, *, precision: Precision = "auto") -> TopPredicted:
    """Run `model` over `texts`, longest first, and return the predictions in the order of the texts.

    The logits of all labels are in memory for one batch at a time.
    """
    rows, known, parts = [], [], []

    def keep(batch: NDArray[np.int64], prediction: Prediction) -> None:
        rows.append(batch)
        logits = prediction.logits.float().cpu().numpy()
        known.append(LabelProbabilities.of(Predicted(logits, None).probabilities[None]))
        if prediction.parts is not None:
            parts.append(prediction.parts.float().cpu().numpy().argmax(-1))

    predict_batches(model, texts, keep, precision=precision)
    place = np.argsort(np.concatenate(rows))
    return TopPredicted(
        LabelProbabilities.concatenate(known, axis=1).rows(place),
        np.concatenate(parts, axis=1)[:, place] if parts else None,
    )
