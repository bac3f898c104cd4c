"""The primary metric: the score that chooses systems, weights, ties and the champion (`metric` in params.yaml).

It is made once from the setting, for the labels of the data, and handed down. A higher score is better: of a loss, the
negative is the score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from epigram.core.config_types import nearest, parse_integer, shown
from epigram.core.errors import DataError, ParameterError
from epigram.evaluation.arrays import Floats
from epigram.evaluation.metrics.function_scores import FUNCTION, check_function, function_rows, given_function
from epigram.evaluation.metrics.metric_rows import (
    Judged,
    accuracy_rows,
    balanced_accuracy,
    cost_rows,
    kappa_rows,
    label_f1_rows,
    label_rows,
    log_loss_rows,
    micro_f1_rows,
)
from epigram.evaluation.metrics.registry import macro_f1, weighted_f1
from epigram.evaluation.metrics.row_scores import ScoredRows
from epigram.evaluation.records.results import Metrics, Task
from epigram.evaluation.settings import AUTO, CostSetting, MetricSetting, name_of

Rows = Callable[[Judged], ScoredRows]


@dataclass(frozen=True)
class PrimaryMetric:
    """The primary metric of a project, with its `name` in params.yaml and in results.

    `cost` has the prices of the metric `cost` by labels. `prices` (C, C) has them by class numbers, and the distances
    of the metric `mean_absolute_error`. `of_words`: the labels of words rank the systems, because the data have no
    others; see `text_metric`.
    """

    name: str
    rows_of: Rows
    of_words: bool = False
    cost: dict[str, dict[str, float]] | None = None
    prices: Floats | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        """Title in reports."""
        return title_of(self.name)

    @property
    def per_label(self) -> bool:
        """Whether the thresholds of several labels per text are chosen for the F1 of each label by itself."""
        return self.name in ("macro_f1", "weighted_f1") or self.name.startswith("f1:")

    def rows(self, judged: Judged, spread: float = 1.0) -> Any:
        """Return what each row adds to the score, with its `spread`."""
        found: Any = self.rows_of(judged)
        return found if spread == 1.0 else replace(found, spread=spread)

    def score(self, judged: Judged) -> float:
        """Return the score, averaged over the seeds."""
        return float(self.rows(judged).scores().mean())


class RegisteredMetric(NamedTuple):
    """Registered metric: title in reports, what each row adds, and the tasks that the metric suits."""

    title: str
    rows: Callable[..., ScoredRows]
    tasks: tuple[Task, ...] = ("single", "multi")
    loss: bool = False  # the score is the negative of what reports show
    percent: bool = True  # reports show the score in percent, unless it is a loss


PRIMARY = {
    "accuracy": RegisteredMetric("accuracy", accuracy_rows),
    "macro_f1": RegisteredMetric("macro-F1", partial(label_rows, statistic=macro_f1)),
    "micro_f1": RegisteredMetric("micro-F1", micro_f1_rows),
    "weighted_f1": RegisteredMetric("weighted F1", partial(label_rows, statistic=weighted_f1)),
    "f1": RegisteredMetric("F1 of {}", label_f1_rows),  # f1:LABEL
    "balanced_accuracy": RegisteredMetric(
        "balanced accuracy", partial(label_rows, statistic=balanced_accuracy), ("single",)
    ),
    "log_loss": RegisteredMetric("log loss", log_loss_rows, loss=True),
    "quadratic_kappa": RegisteredMetric("quadratic kappa", kappa_rows, ("single",)),
    "mean_absolute_error": RegisteredMetric("mean absolute error", cost_rows, ("single",), loss=True),
    "cost": RegisteredMetric("cost per text", cost_rows, ("single",), loss=True),
    FUNCTION: RegisteredMetric("{}", function_rows, percent=False),  # function:NAME
    "token_f1": RegisteredMetric("token F1", micro_f1_rows, ()),  # tokens.py adds up the words of the rows
}
OF_ORDER = {"quadratic_kappa", "mean_absolute_error"}  # names of the metrics that need labels in an order
OF_TASK: dict[Task, str] = {"single": "accuracy", "multi": "micro_f1"}
TASK_METRIC = PrimaryMetric(AUTO, micro_f1_rows)  # accuracy with one label per text, else micro-F1


def metric_of(setting: MetricSetting, task: Task, labels: Sequence[str], *, words_only: bool = False) -> PrimaryMetric:
    """Return the metric of the setting `metric` for data of a task with these labels.

    `words_only`: only words have labels.
    Raises ParameterError for a metric that does not suit the data, and for an unknown label.
    """
    name = name_of(setting)
    if name == AUTO:
        name = "token_f1" if words_only else OF_TASK[task]
    if words_only != (name == "token_f1"):
        why = "only words have labels, which token_f1 scores" if words_only else "texts have labels of their own"
        raise ParameterError(f"metric is {shown(repr(name))}, but {why}; set it to auto")
    kind, _, label = name.partition(":")
    entry = PRIMARY[kind]
    if task not in entry.tasks and not words_only:
        raise ParameterError(f"metric is {kind!r}, which needs one label per text; set it to micro_f1 or macro_f1")
    if isinstance(setting, CostSetting):
        prices = _prices(setting, labels)
        return PrimaryMetric(name, partial(entry.rows, prices=prices), cost=setting.cost, prices=prices)
    if kind == "mean_absolute_error":  # the price of a prediction is its distance from the gold label
        distances = _distances(labels)
        return PrimaryMetric(name, partial(entry.rows, prices=distances), prices=distances)
    more: dict[str, Any] = {}
    if kind == "f1":
        more = {"label": _number(label, labels)}
    elif kind == FUNCTION:
        more = {"labels": labels, "function": given_function(label)}
    return PrimaryMetric(name, partial(entry.rows, **more), words_only)


class LabelledData(Protocol):
    """A validated corpus or an encoded view."""

    @property
    def task(self) -> str:
        """The task: single or multi."""

    @property
    def labels(self) -> list[str]:
        """Labels of the texts."""

    @property
    def tokens_only(self) -> bool:
        """Whether only words have labels."""


def metric_for(setting: MetricSetting, data: LabelledData) -> PrimaryMetric:
    """Return the metric of the setting `metric` for the data, see `metric_of`."""
    return metric_of(setting, task_of(data.task), data.labels, words_only=data.tokens_only)


def text_metric(setting: MetricSetting, data: LabelledData) -> PrimaryMetric:
    """Return the metric of the labels of texts: the score of the task if the labels of words rank the systems."""
    found = metric_for(setting, data)
    return metric_of(AUTO, task_of(data.task), data.labels) if found.of_words else found


def check_metric(setting: MetricSetting, data: LabelledData, *, declared: bool) -> None:
    """Raise ParameterError for a metric that does not suit the data; `declared`: the source lists the labels in order.

    Labels that are numbers are in the order of their values. A function is called with a few of the labels.
    """
    metric = metric_for(setting, data)
    if metric.name.startswith(f"{FUNCTION}:"):
        check_function(metric.rows, len(data.labels), multi=data.task == "multi")
    if metric.name in OF_ORDER and not declared and None in map(parse_integer, data.labels):
        raise ParameterError(
            f"metric is {metric.name!r}, but the labels have no order; name them in order with --ordered of epigram "
            "add or fit, or under `labels` in the source's file in data/sources"
        )


def task_of(name: str) -> Task:
    """Return the task as a type."""
    return "multi" if name == "multi" else "single"


def recorded_metric(metrics: Metrics) -> PrimaryMetric:
    """Return the metric that an evaluation was made with. Raises DataError for an unknown one."""
    if metrics.score.partition(":")[0] not in PRIMARY:
        raise DataError(
            f"the results of {metrics.system} have the unknown score {shown(repr(metrics.score))}; run dvc repro"
        )
    setting = metrics.score if metrics.cost is None else CostSetting(cost=metrics.cost)
    return metric_of(setting, metrics.task, metrics.labels, words_only=metrics.score == "token_f1")


def _number(label: str, labels: Sequence[str], where: str = "") -> int:
    if label not in labels:
        known = nearest(label, list(labels))
        raise ParameterError(f"metric{where} has {shown(repr(label))}, which is not a label: {known}")
    return labels.index(label)


def _prices(setting: CostSetting, labels: Sequence[str]) -> Floats:
    prices = 1.0 - np.eye(len(labels))
    for gold, row in setting.cost.items():
        for predicted, price in row.items():
            prices[_number(gold, labels, ".cost"), _number(predicted, labels, ".cost")] = price
    return prices


def _distances(labels: Sequence[str]) -> Floats:
    """Return the distance of each label from each other one (C, C): of numbers, or of places in the order."""
    numbers = [parse_integer(label) for label in labels]
    values = np.array([number for number in numbers if number is not None], dtype=float)
    values = values if len(values) == len(labels) else np.arange(len(labels), dtype=float)
    return np.asarray(np.abs(values[:, None] - values))


def title_of(name: str) -> str:
    """Return the title of a metric in reports."""
    kind, _, label = name.partition(":")
    return PRIMARY[kind].title.format(label) if kind in PRIMARY else name


def is_loss(name: str) -> bool:
    """Return whether the score of the metric `name` is the negative of a loss, which reports show."""
    entry = PRIMARY.get(name.partition(":")[0])
    return entry is not None and entry.loss


def in_percent(name: str) -> bool:
    """Return whether reports show the score of the metric `name` in percent."""
    entry = PRIMARY.get(name.partition(":")[0])
    return entry is None or (entry.percent and not entry.loss)
