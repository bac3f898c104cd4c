"""Settings of evaluation and comparison: sections `evaluate` and `compare` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from epigram.core.config_types import Count, OpenShare, Positive, Strict

Preference = Literal["cheapest", "best"]


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Strict):
    """Confidence intervals, calibration and speed measurement."""

    resamples: Positive = 2_000
    confidence: OpenShare = 0.95
    bins: Positive = 10
    surest_errors: Count = 20
    timing_texts: Positive = 256


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Strict):
    """Significance level of comparisons, and the choice among the systems tied with the best."""

    alpha: OpenShare = 0.05
    prefer: Preference = "cheapest"
