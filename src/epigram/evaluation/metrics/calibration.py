"""Calibration (reliability bins, expected calibration error, Brier score), and coverage of confident predictions.

Guo et al., On Calibration of Modern Neural Networks, 2017. Single-label: the confidence is the probability of the most
likely label, and the outcome is whether that label is correct. Multi-label: each label of each row is a prediction
with its own probability.

Coverage and accuracy of the predictions with a minimum confidence, for single-label tasks: El-Yaniv and Wiener, On the
Foundations of Noise-free Selective Classification, 2010; the error of the predictions that are kept is the risk.
"""

from __future__ import annotations

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, ratio
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.metrics.single_label import SingleLabelPredictions
from epigram.evaluation.records.results import Bin, Calibration, Coverage


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

    The model divides its logits by `temperature`; `ece_uncalibrated` is the error without it. It is None unless `one`
    temperature calibrates all rows: in a cross-validation, each fold has its own.
    """

    def error(known: SplitPredictions) -> float:
        return expected_calibration_error(reliability(*known.confidences(), bins))

    return Calibration(
        ece=error(predictions),
        brier=predictions.brier(),
        temperature=temperature,
        ece_uncalibrated=error(predictions.at_temperature(1.0 / temperature)) if one else None,
    )


DEV_COVERAGE = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)  # share of the dev texts that are kept


def coverage_curve(dev: SplitPredictions, test: SplitPredictions) -> list[Coverage]:
    """Return the coverage and the accuracy on test at minimum confidences chosen on dev, over all seeds.

    Each seed has its own minimum confidence, as each is a model of its own. Multi-label predictions have none.
    """
    if not (isinstance(dev, SingleLabelPredictions) and isinstance(test, SingleLabelPredictions)):
        return []
    ranked = np.sort(dev.confidence, axis=1)
    return [_point(ranked, test, share) for share in DEV_COVERAGE]


def _point(ranked: Floats, test: SingleLabelPredictions, share: float) -> Coverage:
    """Return the point of the curve that keeps a share of the dev texts, with confidences `ranked` (K, N_dev)."""
    lowest = _minimum_confidence(ranked, share)
    kept = test.confidence >= lowest[:, None]  # (K, N)
    return Coverage(
        dev_coverage=share,
        confidence=float(lowest.mean()),
        coverage=float(kept.mean()),
        accuracy=float(test.correct[kept].mean()) if kept.any() else None,
    )


def _minimum_confidence(ranked: Floats, share: float) -> Floats:
    """Return the minimum (K,) that keeps at least `share` of the ascending confidences (K, N); 0 to keep all."""
    if share == 1.0:
        return np.zeros(len(ranked))
    kept = int(np.ceil(share * ranked.shape[1] - 1e-9))
    return ranked[:, -kept]
