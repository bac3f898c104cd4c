"""Calibration: reliability bins, expected calibration error and Brier score, with and without a temperature.

Guo et al., On Calibration of Modern Neural Networks, 2017. Single-label: the confidence is the probability of the most
likely label, and the outcome is whether that label is correct. Multi-label: each label of each row is a prediction
with its own probability.
"""

from __future__ import annotations

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, ratio
from epigram.evaluation.calibration_results import Bin, Calibration
from epigram.evaluation.results import Task

EPSILON = 1e-12


def confidences(task: Task, probabilities: Floats, gold: Bools) -> tuple[Floats, Bools]:
    """Return confidence and outcome of every prediction, (M,) each, from (N, C) or (K, N, C) and gold (N, C)."""
    if task == "multi":
        return probabilities.ravel(), np.broadcast_to(gold, probabilities.shape).ravel()
    predicted = np.arange(probabilities.shape[-1]) == probabilities.argmax(-1)[..., None]
    return probabilities.max(-1).ravel(), (predicted & gold).any(-1).ravel()


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


def brier(task: Task, probabilities: Floats, gold: Bools) -> float:
    """Return the mean squared error of probabilities (N, C): summed over labels, or averaged for multi-label."""
    squared = (probabilities - gold) ** 2
    return float(squared.mean() if task == "multi" else squared.sum(-1).mean())


def apply_temperature(task: Task, probabilities: Floats, temperature: float) -> Floats:
    """Return probabilities (..., C) after dividing their logits by the temperature (Guo et al., Eq. 9)."""
    p = np.clip(probabilities.astype(float), EPSILON, 1.0 - EPSILON)
    if task == "multi":
        with np.errstate(over="ignore"):  # exp overflows to inf: the probability 1 / inf is 0
            return np.asarray(1.0 / (1.0 + np.exp((np.log1p(-p) - np.log(p)) / temperature)))
    logits = np.log(p) / temperature
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def calibrate(task: Task, probabilities: Floats, gold: Bools, temperature: float, bins: int) -> Calibration:
    """Return the calibration of one seed on the test set, (N, C) each.

    `temperature` is the one that the model divides its logits by; `ece_uncalibrated` is the error without it.
    """

    def error(values: Floats) -> float:
        return expected_calibration_error(reliability(*confidences(task, values, gold), bins))

    return Calibration(
        ece=error(probabilities),
        brier=brier(task, probabilities, gold),
        temperature=temperature,
        ece_uncalibrated=error(apply_temperature(task, probabilities, 1.0 / temperature)),
    )
