"""Calibration: reliability bins, expected calibration error and Brier score, with and without a temperature.

Guo et al., On Calibration of Modern Neural Networks, 2017. Single-label: the confidence is the probability of the most
likely label, and the outcome is whether that label is correct. Multi-label: each label of each row is a prediction
with its own probability.
"""

from __future__ import annotations

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, ratio
from epigram.evaluation.calibration_results import Bin, Calibration
from epigram.evaluation.scoring import SplitPredictions


def reliability(confidence: Floats, outcome: Bools, bins: int) -> list[Bin]:
    """Return mean confidence and accuracy in `bins` bins of equal width; empty bins are left out."""
    index = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    mean = ratio(np.bincount(index, confidence, bins), count)
    accuracy = ratio(np.bincount(index, outcome, bins), count)
    return [
        Bin(
            low=float(i / bins),
            high=float((i + 1) / bins),
            confidence=float(mean[i]),
            accuracy=float(accuracy[i]),
            count=int(count[i]),
        )
        for i in np.flatnonzero(count)
    ]


def expected_calibration_error(bins: list[Bin]) -> float:
    """Return the mean gap between confidence and accuracy, weighted by bin size (Guo et al., Eq. 3)."""
    total = sum(bin.count for bin in bins)
    return sum(bin.count * abs(bin.accuracy - bin.confidence) for bin in bins) / total


def calibrate(predictions: SplitPredictions, temperature: float, bins: int, *, one: bool = True) -> Calibration:
    """Return the calibration of one seed (K = 1) on the test set.

    `temperature` is the one that the model divides its logits by; `ece_uncalibrated` is the error without it. It is
    None unless `one` temperature calibrates all rows: in a cross-validation, each fold has another.
    """

    def error(known: SplitPredictions) -> float:
        return expected_calibration_error(reliability(*known.confidences(), bins))

    return Calibration(
        ece=error(predictions),
        brier=predictions.brier(),
        temperature=temperature,
        ece_uncalibrated=error(predictions.at_temperature(1.0 / temperature)) if one else None,
    )
