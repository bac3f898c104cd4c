"""Coverage and accuracy of the predictions with a minimum confidence, for single-label tasks.

El-Yaniv and Wiener, On the Foundations of Noise-free Selective Classification, 2010: the error of the predictions that
are kept is the risk.
"""

from __future__ import annotations

import numpy as np

from epigram.evaluation.arrays import Floats
from epigram.evaluation.calibration_results import Coverage
from epigram.evaluation.scoring import SplitPredictions
from epigram.evaluation.single_label import SingleLabelPredictions

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
