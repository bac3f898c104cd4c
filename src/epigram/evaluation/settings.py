"""Settings of evaluation: sections `examine`, `evaluate`, `ensemble` and `compare` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from epigram.core.config_types import Checked, Count, MappingAs, OpenShare, Positive, Range, Strict, validate_as
from epigram.core.masking import Kind

Preference = Literal["cheapest", "best"]
AUTO = "auto"  # the metric of the task
METRIC_NAMES = (
    *(AUTO, "accuracy", "macro_f1", "micro_f1", "weighted_f1", "balanced_accuracy"),
    *("log_loss", "quadratic_kappa", "mean_absolute_error", "token_f1"),
)


def _is_metric(name: str) -> bool:
    return name in METRIC_NAMES or name.startswith("f1:")


@dataclass(frozen=True, kw_only=True)
class CostSetting(Strict):
    """Prices of predictions, instead of the name of a metric; by default 0 of a right and 1 of a wrong one."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Strict.__pydantic_config__, "coerce_numbers_to_str": True}

    cost: dict[str, dict[str, Annotated[float, Range(ge=0.0)]]]  # gold label: {predicted label: price}


EXPECTED = (
    "auto, accuracy, macro_f1, micro_f1, weighted_f1, f1:LABEL, balanced_accuracy, log_loss, quadratic_kappa, "
    "mean_absolute_error, or {cost: {GOLD: {PREDICTED: PRICE}}}"
)
MetricSetting = Annotated[Annotated[str, Checked(_is_metric, EXPECTED)] | CostSetting, MappingAs()]


def read_metric(value: Any, file: str) -> MetricSetting:
    """Return a value of `metric` as a setting; `file` begins the message of the ParameterError for an invalid one."""
    kind: Any = MetricSetting
    found: MetricSetting = validate_as(kind, value, "metric", file=file)
    return found


def plain_value(setting: MetricSetting) -> str | dict[str, Any]:
    """Return the value of `metric` in params.yaml."""
    return {"cost": setting.cost} if isinstance(setting, CostSetting) else setting


def name_of(setting: MetricSetting) -> str:
    """Return the name of the metric of a setting; `auto` for the score of the task."""
    return "cost" if isinstance(setting, CostSetting) else setting


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


@dataclass(frozen=True, kw_only=True)
class ReportSettings(Strict):
    """What is masked in reports, artifacts, logs and printed lines."""

    mask: list[Kind] = field(default_factory=list)  # kinds that are shown as dots: docs/trust.md
