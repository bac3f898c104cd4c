"""Fit of a linear head on a frozen encoder: logistic regression, or linear SVMs if the head also counts n-grams."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core import deadline
from epigram.evaluation.metrics.primary import OF_ORDER, TASK_METRIC, PrimaryMetric
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import Predicted, gold_labels
from epigram.models.vectors import encode_texts
from epigram.nn.heads.linear import LinearHead
from epigram.nn.heads.linear_ngrams import LinearNgramsHead
from epigram.training import fitters
from epigram.training.config import ClassWeight
from epigram.training.fitters import FitOptions, Fold, FoldResults, Trained, choose_on_folds, closed_form, pool
from epigram.training.frozen.known_encodings import Encodings, Floats, KnownEncodings
from epigram.training.linear.label_prior import is_worth, prior_weights
from epigram.training.linear.ngram_regression import NgramProblem
from epigram.training.linear.ordered_regression import order_steps, regress_in_order
from epigram.training.linear.row_space import deviations, from_row_space, in_row_space
from epigram.training.objectives.classification import balanced_weights

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)  # C of scikit-learn: the inverse of the penalty's weight
STRENGTHS = (5.0, 10.0, 20.0, 40.0)  # logits that the prior gives to a text as similar as possible to a name

Solution = tuple[Floats, Floats]  # weights (D, C) and biases (C,)


class LogisticSettings(NamedTuple):
    """Settings of a logistic regression: C, and the strength of the prior by the names of the labels.

    `in_order`: the labels have one vector of weights, see `regress_in_order`.
    """

    penalty: float
    strength: float = 0.0
    in_order: bool = False


class FoldChoice(NamedTuple):
    """What the folds chose, the settings of the regression or of the SVMs, and the encodings of all their texts."""

    settings: Any
    known: KnownEncodings


class LogisticOptions(NamedTuple):
    """Options of a logistic regression: C, the weight of the classes, and whether they have one vector of weights."""

    penalty: float
    class_weight: ClassWeight
    in_order: bool = False


@fitters.register("frozen_classifier")
def fit_model(model: NeuralClassifier, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> Trained:
    """Fit the head on the CPU; the encoder runs on the device of the texts."""
    choice: FoldChoice | None = options.choice
    encodings = Encodings.of(encode if choice is None else choice.known.of, model, train, dev)
    problem = make_problem(model, train, dev, options, encodings)
    problem.install(model, problem.choose([problem]) if choice is None else choice.settings)
    return replace(closed_form(model, dev, options.metric), depth=model.depth)


@fitters.register_on_folds("frozen_classifier")
def fit_folds(folds: Iterable[Fold]) -> FoldResults:
    """Fit the head for each fold, and choose its settings by the loss on all held-out texts together."""
    given, known = list(folds), KnownEncodings(encode)
    loaded = ((fold.load(), fold.options) for fold in given)
    problems = [make_problem(*data, options, Encodings.of(known.of, *data)) for data, options in loaded]
    found = choose_head(problems)
    return replace(found, choice=FoldChoice(found.choice, known))


def choose_head(problems: Sequence[Any]) -> FoldResults:
    """Return the settings with the lowest loss on the held-out texts of all folds together, and the predictions."""
    return choose_on_folds(
        problems, lambda given: given[0].choose(given), lambda problem, settings: problem.predicted(settings)
    )


def make_problem(
    model: NeuralClassifier, train: TextBatches, dev: TextBatches | None, options: FitOptions, encodings: Encodings
) -> Any:
    """Return the problem of fitting the head of `model` to encodings of the texts."""
    if isinstance(model.head, LinearNgramsHead):
        return NgramProblem(model, train, dev, encodings, options)
    return LogisticProblem(model, train, dev, encodings, options.config.class_weight, options.metric)


def fit(
    model: NeuralClassifier,
    train: TextBatches,
    dev: TextBatches,
    class_weight: ClassWeight = "none",
    metric: PrimaryMetric = TASK_METRIC,
) -> None:
    """Set the head's linear layer to the logistic regression with the penalty that has the lowest loss on `dev`."""
    problem = LogisticProblem(model, train, dev, Encodings.of(encode, model, train, dev), class_weight, metric)
    problem.install(model, problem.choose([problem]))


class LogisticProblem:
    """Logistic regression of the labels of some texts on their encodings, judged on held-out texts if there are any.

    The encodings are standardized with the mean and the standard deviation over `train`. With names of the
    labels, a prior is added to the fitted weights.
    """

    def __init__(
        self,
        model: NeuralClassifier,
        train: TextBatches,
        dev: TextBatches | None,
        encodings: Encodings,
        class_weight: ClassWeight,
        metric: PrimaryMetric = TASK_METRIC,
    ) -> None:
        self.metric = metric
        x, held_out, names = encodings
        self.mean, self.scale = x.mean(0), deviations(x)
        self.x, self.basis = in_row_space((x - self.mean) / self.scale)
        self.y = gold_labels(train)
        self.classes, self.class_weight = cast(LinearHead, model.head).out.out_features, class_weight
        self.multi, self._solutions = model.multi, dict[tuple[float, bool], Solution]()
        self.prior = (
            None if names is None else self.scale[:, None] * prior_weights(names, x, self.y, model.encoder.width)
        )  # (D, C)
        if held_out is not None and dev is not None:
            self.held_out, self.wanted = (held_out - self.mean) / self.scale, gold_labels(dev)

    def choose(self, problems: Sequence[LogisticProblem]) -> LogisticSettings:
        """Return the settings with the lowest loss on the held-out texts of all `problems` together.

        One vector of weights is tried if the metric says that the labels have an order. Settings with a prior are
        chosen only if the prior is worth it.
        """
        orders = (False, True) if self.metric.name in OF_ORDER else (False,)
        wanted = np.concatenate([each.wanted for each in problems])

        def pooled(settings: LogisticSettings) -> Predicted:
            return pool([each.predicted(settings) for each in problems])

        def best(strengths: Sequence[float]) -> LogisticSettings:
            tried = (LogisticSettings(*each) for each in product(PENALTIES, strengths, orders))
            return min(tried, key=lambda settings: pooled(settings).loss(wanted))

        plain = best([0.0])
        if self.prior is None:
            return plain
        with_prior = best(STRENGTHS)
        return with_prior if is_worth(pooled(with_prior), pooled(plain), wanted, self.metric) else plain

    def predicted(self, settings: LogisticSettings) -> Predicted:
        """Return the predictions for the held-out texts."""
        weight, bias = self.solution(settings)
        return Predicted((self.held_out @ weight + bias).astype(np.float32), None, self.multi)

    def solution(self, settings: LogisticSettings) -> Solution:
        """Return weights (D, C) and biases (C,) for the standardized encodings."""
        penalty, strength, in_order = settings
        if (penalty, in_order) not in self._solutions:
            options = LogisticOptions(penalty, self.class_weight, in_order)
            weight, bias = _solve(self.x, self.y, self.classes, options)
            self._solutions[penalty, in_order] = from_row_space(weight, self.basis), bias
        weight, bias = self._solutions[penalty, in_order]
        return (weight if self.prior is None or strength == 0.0 else weight + strength * self.prior), bias

    def install(self, model: NeuralClassifier, settings: LogisticSettings) -> None:
        """Set the linear layer of `model`, which contains the standardization."""
        (weight, bias), layer = self.solution(settings), cast(LinearHead, model.head).out
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy((weight / self.scale[:, None]).T))
            layer.bias.copy_(torch.from_numpy(bias - self.mean / self.scale @ weight))


def encode(model: NeuralClassifier, texts: TextBatches) -> NDArray[np.float64]:
    """Return the encodings (N, D) that the head's linear layer reads, in the precision of predictions."""
    head = cast(LinearHead, model.head)
    return encode_texts(model, texts, head.out.in_features, head.text_states)


def _solve(x: Floats, labels: NDArray[np.integer], classes: int, options: LogisticOptions) -> Solution:
    """Return the weights (D, C) and biases (C,) for class indices (N,) or indicators (N, C)."""
    if labels.ndim == 1:
        return _fit_single_label(x, labels, classes, options)
    columns = [_fit_indicator(x, column, options) for column in labels.T]
    return np.stack([weight for weight, _ in columns], 1), np.array([bias for _, bias in columns])


def _fit_single_label(x: Floats, labels: NDArray[np.integer], classes: int, options: LogisticOptions) -> Solution:
    """Return the regression; at the mean of the encodings, a class without texts has the odds of half a text."""
    weights, biases = np.zeros((x.shape[1], classes)), np.zeros(classes)
    present, codes = np.unique(labels, return_inverse=True)
    if len(present) > 1 and options.in_order:
        steps, even = order_steps(classes), np.ones(len(present))
        shares = even if options.class_weight == "none" else balanced_weights(codes)
        vector, biases[present] = regress_in_order(x, codes, steps[present], options.penalty, shares)
        weights = np.outer(vector, steps)
    elif len(present) > 1:
        weight, bias = _regress(x, labels, options)
        if len(present) == 2:  # scikit-learn returns the logit of the second class
            weight, bias = np.stack([-weight[0], weight[0]]) / 2, np.array([-bias[0], bias[0]]) / 2
        weights[:, present], biases[present] = weight.T, bias
    biases[np.setdiff1d(np.arange(classes), present)] = np.logaddexp.reduce(biases[present]) - _log_odds(len(labels))
    return weights, biases


def _log_odds(texts: int) -> float:
    """Return the log-odds of so many `texts` against half a text, which stands for a class without texts."""
    return math.log(2 * texts)


def _fit_indicator(x: Floats, labels: NDArray[np.integer], options: LogisticOptions) -> tuple[Floats, float]:
    """Return the weights (D,) and the bias of one label; a label of all or no texts gets only a bias."""
    if labels.min() == labels.max():
        return np.zeros(x.shape[1]), _log_odds(len(labels)) * (1 if labels[0] else -1)
    weight, bias = _regress(x, labels, options)
    return weight[0], float(bias[0])


def _regress(x: Floats, labels: NDArray[np.integer], options: LogisticOptions) -> Solution:
    """Return the weights (M, D) and biases (M,) of scikit-learn's logistic regression."""
    from sklearn.linear_model import LogisticRegression

    deadline.check()
    model = LogisticRegression(
        C=options.penalty, max_iter=1000, class_weight=None if options.class_weight == "none" else "balanced"
    ).fit(x, labels)
    return model.coef_, model.intercept_
