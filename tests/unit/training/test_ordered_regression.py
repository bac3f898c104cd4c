"""Regression of labels in an order: scikit-learn's for two labels, the minimum for more, and when it is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from epigram.core.arrays import Ragged
from epigram.evaluation.metrics.primary import metric_of
from epigram.models.batches import TextBatches
from epigram.models.recipe import Recipe
from epigram.nn.layers.types import DataSpec
from epigram.training.config import ClassWeight
from epigram.training.fitters.frozen_classifier import LogisticProblem, LogisticSettings
from epigram.training.frozen.known_encodings import Encodings
from epigram.training.linear.ordered_regression import order_steps, regress_in_order

NAMES, WIDTH = ["1", "2", "3", "4", "5"], 30
RECIPE = Recipe(
    name="mine", about="", paper="", view="token", model={"kind": "frozen_classifier"},
    encoder={"kind": "embedding", "width": WIDTH, "dropout": 0.0}, head={"kind": "linear"},
)  # fmt: skip


def ratings(count: int, seed: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return encodings (N, D) of which one direction says how good a text is, and labels of five equal ranges of it."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, WIDTH))
    good = x[:, :10].sum(1) + random.normal(size=count)
    return x, np.digitize(good, np.quantile(good, [0.2, 0.4, 0.6, 0.8]))


@pytest.mark.parametrize("balanced", [False, True])
def test_of_two_labels_it_is_the_regression_of_scikit_learn(balanced: bool) -> None:
    x, labels = ratings(80, 0)
    codes = (labels > 3).astype(int)
    shares = len(codes) / (2 * np.bincount(codes)) if balanced else np.ones(2)
    vector, biases = regress_in_order(x, codes, order_steps(2), 0.1, shares)
    known = LogisticRegression(C=0.1, tol=1e-8, class_weight="balanced" if balanced else None).fit(x, codes)
    assert_allclose(vector, known.coef_[0], atol=2e-3)
    assert biases[1] - biases[0] == pytest.approx(known.intercept_[0], abs=2e-3)


def test_the_regression_of_several_labels_is_the_minimum() -> None:
    """At the minimum, C times the residuals' sum of steps and encodings is minus the vector, and each label's sum 0."""
    x, labels = ratings(200, 0)
    shares, steps = np.array([1.0, 2.0, 1.0, 0.5, 1.0]), order_steps(5)
    vector, biases = regress_in_order(x, labels, steps, 0.3, shares)
    apart = softmax((x @ vector)[:, None] * [-2, -1, 0, 1, 2] + biases, axis=1) - np.eye(5)[labels]
    apart *= shares[labels][:, None]
    assert_allclose(0.3 * x.T @ (apart @ steps), -vector, atol=0.01)
    assert_allclose(apart.sum(0), 0.0, atol=0.01)


def problem(
    train: Any, dev: Any, metric: str = "mean_absolute_error", class_weight: ClassWeight = "none"
) -> tuple[LogisticProblem, Any]:
    """Return the problem of a fit whose encodings are given, and its model; a text has one token."""
    model = RECIPE.build(DataSpec(vocabulary=9, classes=5, max_length=4))

    def texts(labels: NDArray[np.int64]) -> TextBatches:
        ids = Ragged.from_lists([[5]] * len(labels), np.int64)
        return TextBatches(ids, prefix=[], suffix=[], max_length=4, pad_id=0, unk_id=1, labels=labels)

    encodings, known = Encodings(train[0], dev[0], None), metric_of(metric, "single", NAMES)
    return LogisticProblem(model, texts(train[1]), texts(dev[1]), encodings, class_weight, known), model


def test_the_order_is_used_if_the_metric_is_of_an_order_and_held_out_texts_say_that_it_helps() -> None:
    """With 60 training texts, one vector errs less than five; labels in another order have no direction."""
    train, dev, test = ratings(60, 0), ratings(300, 1), ratings(2000, 2)
    other = np.array([2, 4, 0, 3, 1])
    chosen, errors = {}, {}
    for metric in ("mean_absolute_error", "quadratic_kappa", "accuracy"):
        found, model = problem(train, dev, metric)
        settings = found.choose([found])
        found.install(model, settings)
        chosen[metric] = settings.in_order
        with torch.no_grad():
            logits = model.head.out(torch.from_numpy(test[0]).float()).numpy()
            held_out = model.head.out(torch.from_numpy(dev[0]).float()).numpy()
        errors[metric] = np.abs(logits.argmax(1) - test[1]).mean()
        assert_allclose(held_out, found.predicted(settings).logits, atol=1e-4)
    assert chosen == {"mean_absolute_error": True, "quadratic_kappa": True, "accuracy": False}
    assert errors["mean_absolute_error"] < 0.85 * errors["accuracy"], errors
    mixed, _ = problem((train[0], other[train[1]]), (dev[0], other[dev[1]]))
    assert not mixed.choose([mixed]).in_order


def test_a_label_without_texts_has_its_place_in_the_order_and_the_odds_of_half_a_text() -> None:
    x, labels = ratings(100, 0)
    rows = labels != 3
    found, _ = problem((x[rows], labels[rows]), (x, labels), class_weight="balanced")
    weight, bias = found.solution(LogisticSettings(1.0, in_order=True))
    assert_allclose(weight[:, 3], weight[:, 4] / 2)
    steps, known, codes = np.array([-2, -1, 0, 2]), [0, 1, 2, 4], np.minimum(found.y, 3)
    apart = softmax(found.x @ weight[:, known] + bias[known], axis=1) - np.eye(4)[codes]
    apart *= (rows.sum() / (4 * np.bincount(codes)))[codes][:, None]
    assert_allclose(found.x.T @ (apart @ steps), -weight[:, 3], atol=0.01)  # the minimum, see above
    others = np.logaddexp.reduce(np.delete(bias, 3))
    assert bias[3] - others == pytest.approx(-np.log(2 * rows.sum()))
