"""Settings of evaluation: sections `examine`, `evaluate`, `ensemble` and `compare` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from epigram.core.config_types import Count, OpenShare, Positive, Range, Strict

Preference = Literal["cheapest", "best"]


@dataclass(frozen=True, kw_only=True)
class ExamineSettings(Strict):
    """Size of the examination of the training rows, and the similarity of near duplicates."""

    rows: Positive = 20_000  # training rows whose labels are judged; five times as many texts are compared
    similarity: OpenShare = 0.85  # cosine of the sets of character n-grams


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Strict):
    """Confidence intervals, calibration and speed measurement."""

    resamples: Positive = 2_000  # resamples of the bootstrap
    confidence: OpenShare = 0.95  # confidence level of the intervals
    bins: Positive = 10  # bins of the calibration diagram
    surest_errors: Count = 20  # wrong predictions of the highest probability that the report shows
    timing_texts: Positive = 256  # texts that are predicted one at a time to measure the time; fewer of a slow system


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings(Strict):
    """Selection of an ensemble: `rounds` additions of a member; `parts` of the development rows for its score."""

    enabled: bool = True  # whether the ensemble competes with the systems
    rounds: Positive = 20  # additions of a member
    # parts of the development rows; each is scored with weights chosen on the other parts
    parts: Annotated[int, Range(ge=2)] = 5


@dataclass(frozen=True, kw_only=True)
class CompareSettings(Strict):
    """Significance level of comparisons, and the choice among the systems tied with the best."""

    alpha: OpenShare = 0.05  # significance level: systems that differ less are tied
    # cheapest: the tie with the fewest FLOPs if at most half of the best one's, else the best; best: by log loss on dev
    prefer: Preference = "cheapest"
