"""Coverage and accuracy of the predictions with a minimum confidence, for single-label tasks.

El-Yaniv and Wiener, On the Foundations of Noise-free Selective Classification, 2010: the error of the predictions that
are kept is the risk.
"""

from __future__ import annotations

import numpy as np

from epigram.evaluation.arrays import Floats
from epigram.evaluation.calibration_results import Coverage
from epigram.evaluation.scoring import SplitPredictions

DEV_COVERAGE = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)  # share of the dev texts that are kept


def coverage_curve(dev: SplitPredictions, test: SplitPredictions) -> list[Coverage]:
    """Return the coverage and the accuracy on test at minimum confidences chosen on dev, over all seeds.

    Each seed has its own minimum confidence, as each is a model of its own. Multi-label predictions have none.
    """
    return [] if test.task == "multi" else [_point(dev, test, share) for share in DEV_COVERAGE]


def _point(dev: SplitPredictions, test: SplitPredictions, share: float) -> Coverage:
    lowest = _minimum_confidence(dev.probabilities.max(-1), share)
    kept = test.probabilities.max(-1) >= lowest[:, None]  # (K, N)
    correct = np.asarray((test.predicted & test.gold).any(-1))
    return Coverage(
        dev_coverage=share,
        confidence=float(lowest.mean()),
        coverage=float(kept.mean()),
        accuracy=float(correct[kept].mean()) if kept.any() else None,
    )


def _minimum_confidence(confidence: Floats, share: float) -> Floats:
    """Return the minimum (K,) that keeps at least `share` of the confidences (K, N); 0 to keep all."""
    if share == 1.0:
        return np.zeros(len(confidence))
    kept = int(np.ceil(share * confidence.shape[1] - 1e-9))
    return np.sort(confidence, axis=1)[:, -kept]
