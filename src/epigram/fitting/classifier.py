"""scikit-learn's estimator on `fit`, for pipelines, cross-validation and grid search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from epigram.core.errors import ParameterError
from epigram.data.validation.label_checks import visible_label
from epigram.evaluation.metrics.function_scores import MetricFunction, name_of_function
from epigram.evaluation.settings import AUTO
from epigram.fitting.fit import fit
from epigram.fitting.inputs import as_list
from epigram.inference.predictors.base_predictor import list_texts
from epigram.text.dataset.language import Language

Labels = NDArray[Any]


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classifier of texts: the best model that `epigram.fit` finds by `metric` within `budget`, the time of one `fit`.

    `X` is a list, an array or a series of strings. `y` has a label for each text, which `predict` returns in its own
    type. If a text may have several labels, `y` is an indicator matrix (N, C) or a list of the labels of each text, and
    `predict` returns the same, and a function as `metric` gets it. `classes_` are the sorted labels, the columns of an
    indicator matrix and of `predict_proba`; a label without a text has the probability 0. `model_` is the FittedModel.
    """

    def __init__(
        self,
        budget: str = "1m",
        metric: str | Mapping[str, Any] | MetricFunction = AUTO,
        language: Language | None = None,
        verbose: bool = False,
    ) -> None:
        self.budget, self.metric, self.language, self.verbose = budget, metric, language, verbose

    def fit(self, X: Iterable[str], y: Any) -> Classifier:
        """Train on texts with their labels. Raises ValueError for labels of another form, and the errors of `fit`."""
        X, y = validate_data(self, X, y, skip_check_array=True)
        texts = list_texts(X)
        check_consistent_length(texts, y)
        lists = _lists_of(y)
        binarizer = None if lists is None else MultiLabelBinarizer().fit(lists)
        classes, places = _read_target(y) if binarizer is None else (binarizer.classes_, binarizer.transform(lists))
        names, several = _names_of(classes), places.ndim > 1
        labels = [[names[c] for c in np.flatnonzero(row)] if several else names[row] for row in places]
        form = _Form(classes, several, binarizer)
        self.model_ = fit(texts, labels, **self.get_params() | {"metric": form.metric(self.metric)})
        self.classes_, self._form = classes, form
        return self

    def predict(self, X: Iterable[str]) -> Any:
        """Return the label of each text, or its labels in the form that `fit` got."""
        check_is_fitted(self)
        if self._form.several:
            return self._form.of([each.labels for each in self.model_.predict(X)])
        chosen = self.model_.predictor.choose(self.model_.probabilities(X))
        return self._form.of([self.model_.labels[place] for place in chosen])

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float64]:
        """Return the probabilities (N, C) of `X`; columns are in the order of `classes_`."""
        check_is_fitted(self)
        return self._probabilities(X)

    def _probabilities(self, X: Iterable[str]) -> NDArray[np.float64]:
        known = self.model_.probabilities(X)
        found = np.zeros((len(known), len(self.classes_)))
        found[:, [self._form.places[label] for label in self.model_.labels]] = known
        return found

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn must know of this estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        tags.classifier_tags.multi_label = True
        tags.non_deterministic = True  # the time that a training takes decides what else is tried
        return tags


@dataclass(frozen=True)
class _Form:
    """The form of `y`: its classes, and whether a text has several labels, in lists if there is a `binarizer`."""

    classes: Labels
    several: bool
    binarizer: MultiLabelBinarizer | None

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Place of each label of the model among the classes."""
        return {name: place for place, name in enumerate(map(str, self.classes))}

    def of(self, labels: Iterable[Any]) -> Any:
        """Return the labels of the model, a name or a list of names for each text, in the form of `y`."""
        if not self.several:
            return self.classes[[self.places[label] for label in labels]]
        found = [[self.places[label] for label in each] for each in labels]
        indicator = np.zeros((len(found), len(self.classes)), dtype=np.int64)
        for row, each in enumerate(found):
            indicator[row, each] = 1
        if self.binarizer is None:
            return indicator
        return [list(row) for row in self.binarizer.inverse_transform(indicator)]

    def metric(self, metric: Any) -> Any:
        """Return the metric of the model's labels for a metric; only a function is of labels in the form of `y`."""
        if not callable(metric):
            return metric

        def in_form(gold: Any, predicted: Any) -> Any:
            return metric(self.of(gold), self.of(predicted))

        in_form.__name__ = name_of_function(metric)
        return in_form


def _lists_of(y: Any) -> list[Any] | None:
    """Return `y` as a list if it has a list of labels for each text; None for a label each or a matrix."""
    if not isinstance(y, Iterable) or hasattr(y, "columns") or getattr(y, "ndim", 1) > 1:
        return None
    listed = as_list(y, "y")
    return listed if listed and all(isinstance(each, (list, tuple, set)) for each in listed) else None


def _read_target(y: Any) -> tuple[Labels, Labels]:
    """Return the classes, and the place of each text's class among them (N,), or an indicator matrix (N, C)."""
    check_classification_targets(y)
    if type_of_target(y) == "multilabel-indicator":
        indicator = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        return np.arange(indicator.shape[1]), indicator
    classes, places = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()}; expected two or more")
    return classes, places


def _names_of(classes: Labels) -> list[str]:
    """Return the classes as text. Raises ParameterError for one that a table of labels cannot keep apart."""
    names = list(map(str, classes))
    if lost := [name for name in names if not name or visible_label(name.strip()) != name]:
        raise ParameterError(f"y has the label {lost[0]!r}; expected labels without invisible characters at an end")
    return names
