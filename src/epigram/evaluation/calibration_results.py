"""Results of calibration: bins of the reliability chart, calibration errors, and coverage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Bin of the reliability chart: predictions with a confidence in (low, high]."""

    low: float
    high: float
    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Calibration on the test set.

    `temperature` is the model's own, fitted on the development set; the other values are those of the calibrated
    probabilities, and `ece_uncalibrated` is the error without the temperature; None for a cross-validation.
    """

    ece: float
    brier: float
    temperature: float
    ece_uncalibrated: float | None


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Test predictions with at least a minimum confidence, and the share of them that is correct.

    `confidence` is chosen on the development set so that it keeps `dev_coverage` of its texts. `accuracy` is None if no
    test text reaches it.
    """

    dev_coverage: float
    confidence: float
    coverage: float
    accuracy: float | None
