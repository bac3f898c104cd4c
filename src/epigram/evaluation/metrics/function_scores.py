"""A metric that is a function of Python: `function(gold, predicted)` of labels returns a number, larger is better.

The name of the setting and of the results is function:NAME. The function itself is in no file: it is known while
`metric_setting` is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError
from epigram.core.limits import list_names
from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.metrics.metric_rows import Decided, Judged
from epigram.evaluation.metrics.row_scores import MANY_LABELS, ScoredRows, label_codes
from epigram.evaluation.settings import MetricSetting, read_metric

MetricFunction = Callable[[Any, Any], float]
FUNCTION = "function"  # the name of the metric begins with it
MOST_RESAMPLES = 400  # calls take long; with fewer, the best of ten systems could not be significantly better
CHECKED_LABELS = 20  # labels that a check calls the function with, one by one
NAMED_LABELS = 3  # labels that a message names
_given: ContextVar[MetricFunction] = ContextVar("metric")


def name_of_function(function: MetricFunction) -> str:
    """Return the name of a function; of an object that can be called, the name of its class."""
    return shown(str(getattr(function, "__name__", type(function).__name__)).strip("<>"))


@contextmanager
def metric_setting(metric: Any, file: str) -> Iterator[MetricSetting]:
    """Yield `metric`, a value of params.yaml or a function, as a setting; a function is known until the end.

    `file` begins the message of the ParameterError for an invalid value.
    """
    if not callable(metric):
        yield read_metric(metric, file)
        return
    token = _given.set(metric)
    try:
        yield f"{FUNCTION}:{name_of_function(metric)}"
    finally:
        _given.reset(token)


@dataclass(frozen=True)
class FunctionScores(ScoredRows):
    """Gold labels and predictions, as in `LabelScores`, of which `function` returns the score, by their names.

    It gets two arrays with an entry for each row: the label, or a list of labels if a row may have several.
    """

    gold: NDArray[Any]
    predicted: NDArray[Any]
    labels: Sequence[str]
    function: MetricFunction
    spread: float = 1.0
    bounds: tuple[float, float] = (-math.inf, math.inf)

    most_resamples: ClassVar[int | None] = MOST_RESAMPLES

    @property
    def codes(self) -> Sequence[NDArray[Any]]:
        """The labels."""
        return label_codes(self.gold, self.predicted)

    @property
    def mostly_rare(self) -> bool:
        """Whether most of the distinct rows occur only a few times."""
        return self.gold.ndim == 2 or len(self.labels) > MANY_LABELS

    @cached_property
    def _distinct(self) -> tuple[Ints, Ints]:
        """First row of each distinct combination of labels, (F,), and the combination of each row, (N,)."""
        found = np.unique(np.stack(self.codes, axis=1), axis=0, return_index=True, return_inverse=True)
        return found[1], found[2].reshape(-1)

    def columns(self, rows: Ints) -> Any:
        """Return which of the F distinct combinations each row has, (n, F), as a sparse matrix."""
        from scipy.sparse import csr_matrix

        first, places = self._distinct
        return csr_matrix((np.ones(len(rows)), (np.arange(len(rows)), places[rows])), shape=(len(rows), len(first)))

    def of(self, sums: Floats) -> Floats:
        """Return the scores (r, K) from the rows of each combination, (r, F)."""
        first, _ = self._distinct
        gold, *seeds = self._named(first)
        counts = sums.astype(np.int64)
        return np.array([[self._call(gold.repeat(row), each.repeat(row)) for each in seeds] for row in counts])

    def scores(self) -> Floats:
        """Return the score of every seed, (K,)."""
        gold, *seeds = self._named(np.arange(len(self.gold)))
        return np.array([self._call(gold.copy(), each) for each in seeds])

    def rows(self, chosen: Bools) -> Self:
        """Return only the rows where `chosen` (N,) is true."""
        return replace(self, gold=self.gold[chosen], predicted=self.predicted[:, chosen])

    def _named(self, rows: Ints) -> list[NDArray[Any]]:
        """Return the names of the gold labels of chosen rows (n,), and of the labels that each seed predicts."""
        return [_names(each[rows], self.labels) for each in (self.gold, *self.predicted)]

    def _call(self, gold: NDArray[Any], predicted: NDArray[Any]) -> float:
        """Return the score. Raises ParameterError if the function fails or returns no finite number."""
        try:
            value: Any = self.function(gold, predicted)
        except Exception as error:
            raise self._fault(f"raised {type(error).__name__} ({shown(str(error))})", gold) from error
        if not isinstance(value, Real) or not math.isfinite(value):
            raise self._fault(f"returned {shown(repr(value))}", gold)
        return float(value)

    def _fault(self, what: str, gold: NDArray[Any]) -> ParameterError:
        labels = sorted({name for each in gold for name in ([each] if isinstance(each, str) else each)})
        texts = f"{len(gold):,} texts whose right labels are {shown(list_names(labels, NAMED_LABELS)) or 'none'}"
        return ParameterError(
            f"metric {name_of_function(self.function)} {what} for {texts}; expected a finite number for any texts"
        )


def _names(values: NDArray[Any], labels: Sequence[str]) -> NDArray[Any]:
    """Return the names of class numbers (n,), or the lists of names of indicators (n, C), as an array (n,)."""
    if values.ndim == 1:
        return np.asarray(np.array(labels, dtype=object)[values])
    lists = ([labels[place] for place in np.flatnonzero(row).tolist()] for row in values)
    return np.fromiter(lists, dtype=object, count=len(values))


def function_rows(judged: Judged, *, labels: Sequence[str], function: MetricFunction) -> FunctionScores:
    """Return the rows of a metric that is a function of Python."""
    return FunctionScores(judged.gold, judged.predicted, labels, function)


def given_function(name: str) -> MetricFunction:
    """Return the function of the open `metric_setting`. Raises ParameterError if there is none of this name."""
    function = _given.get(None)
    if function is None or name_of_function(function) != name:
        raise ParameterError(f"metric is the function {shown(name)}, which is not in any file; pass it to fit again")
    return function


def check_function(rows: Callable[[Judged], ScoredRows], classes: int, *, multi: bool) -> None:
    """Raise ParameterError if a function fails where all labels are right, all are wrong, or all are the same."""
    every, indicators = np.arange(classes), np.eye(classes, dtype=bool)
    wrong = np.roll(every, 1)
    alone = [every[label : label + 1] for label in range(min(classes, CHECKED_LABELS))]
    cases = [
        (every, every),
        (every, wrong),
        *((label, label) for label in alone),
        *((one, wrong[one]) for one in alone),
    ]
    for gold, predicted in cases:
        known = (indicators[gold], indicators[predicted]) if multi else (gold, predicted)
        rows(Decided(known[0], known[1][None], np.zeros((1, len(gold), classes)))).scores()
