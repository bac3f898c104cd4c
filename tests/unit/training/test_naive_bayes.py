"""Tests of naive-Bayes weighting of a linear SVM against a reading of Wang and Manning (2012) in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.svm import LinearSVC

from epigram.models.predict import predict
from epigram.training.fitters.linear_svm import fit
from epigram.training.linear.svm import SvmOptions, fit_svms, log_count_ratios
from tests.support.svm_texts import svm_of, words

ROWS, FEATURES = 60, 9
GENERATOR = np.random.default_rng(3)
X = np.where(GENERATOR.random((ROWS, FEATURES)) < 0.4, GENERATOR.random((ROWS, FEATURES)), 0.0)
CLASSES = np.arange(ROWS) % 3
INDICATORS = (GENERATOR.random((ROWS, 3)) < 0.4).astype(np.uint8)
OPTIONS = SvmOptions(0.5, 0, "none", "naive_bayes")


def ratios(label: NDArray[Any]) -> NDArray[np.float64]:
    """Return r = log((p / |p|₁) / (q / |q|₁)), where p and q are 1 + the binary counts, text by text."""
    p, q = np.ones(FEATURES), np.ones(FEATURES)
    for row, has in zip(X, label, strict=True):
        for feature, value in enumerate(row):
            if value > 0 and has:
                p[feature] += 1
            elif value > 0:
                q[feature] += 1
    return np.log((p / sum(p)) / (q / sum(q)))


def read(label: NDArray[Any], class_weight: Any = None) -> tuple[NDArray[np.float64], float]:
    """Return the weights (F,) for X and the bias of one label: r ∘ w, where w is fitted to r ∘ X."""
    r = ratios(label)
    svm = LinearSVC(C=0.5, random_state=0, class_weight=class_weight).fit(csr_matrix(X * r), label)
    return r * svm.coef_[0], svm.intercept_[0]


def test_the_ratios_are_those_of_the_paper() -> None:
    label = CLASSES == 1
    assert_allclose(log_count_ratios(csr_matrix(X), label), ratios(label), rtol=1e-12)


def test_the_ratios_of_two_texts() -> None:
    """p = (1 + 1, 1 + 0) and q = (1 + 0, 1 + 1), so r = log((2/3) / (1/3)) = log 2 and its negative."""
    found = log_count_ratios(csr_matrix(np.eye(2) * 0.3), np.array([True, False]))
    assert_allclose(found, [np.log(2), -np.log(2)])


@pytest.mark.parametrize(("labels", "columns"), [(CLASSES, np.eye(3)[CLASSES]), (INDICATORS, INDICATORS)])
def test_each_label_has_ratios_of_its_own(labels: NDArray[Any], columns: NDArray[Any]) -> None:
    weight, bias = fit_svms(csr_matrix(X), labels, 3, OPTIONS)
    for place, column in enumerate(columns.T):
        wanted = read(column)
        assert_allclose(weight[:, place], wanted[0], rtol=1e-9)
        assert_allclose(bias[place], wanted[1], rtol=1e-9)


def test_two_classes_have_opposite_weights() -> None:
    labels = CLASSES % 2
    weight, bias = fit_svms(csr_matrix(X), labels, 2, OPTIONS)
    wanted = read(labels)
    assert_allclose(weight, np.stack([-wanted[0], wanted[0]], 1), rtol=1e-9)
    assert_allclose(bias, [-wanted[1], wanted[1]], rtol=1e-9)


def test_a_class_without_texts_has_no_weight() -> None:
    weight, bias = fit_svms(csr_matrix(X), CLASSES + (CLASSES > 0), 4, OPTIONS)
    assert not weight[:, 1].any()
    assert bias[1] == -1.0
    assert_allclose(weight[:, 3], read(CLASSES == 2)[0], rtol=1e-9)


@pytest.mark.parametrize("weighting", ["tfidf", "naive_bayes"])
def test_balanced_classes_weigh_the_same_in_one_fit_and_in_one_fit_per_class(weighting: Any) -> None:
    """A class of n of N texts has the weight N / (P · n) and the rest 1, as in liblinear's fit of all classes."""
    labels = np.minimum(np.arange(ROWS) // 10, 2)  # 10, 10 and 40 texts
    weight, _ = fit_svms(csr_matrix(X), labels, 3, SvmOptions(0.5, 0, "balanced", weighting))
    for label, share in enumerate([2.0, 2.0, 0.5]):
        r = ratios(labels == label) if weighting == "naive_bayes" else np.ones(FEATURES)
        svm = LinearSVC(C=0.5, random_state=0, tol=1e-8, max_iter=100_000, class_weight={1: share})
        assert_allclose(weight[:, label], r * svm.fit(X * r, labels == label).coef_[0], atol=2e-3)


@pytest.mark.parametrize("penalty", [0.25, 1.0, 4.0])
def test_the_model_s_weights_have_a_known_minimum(penalty: float) -> None:
    """Two texts, one token each: w = (a, a) and b = 0, with the minimum of a² + 2C(1 − r·a)² at a = 2Cr / (1 + 2Cr²).

    The weights for TF-IDF are r·a for the token of the second class and −r·a for the other.
    """
    model, given = svm_of(orders=[1], weighting="naive_bayes", penalty=penalty), words([0, 1], [5, 6])
    fit(model, given, given, seed=0)
    r = np.log(2)
    a = 2 * penalty * r / (1 + 2 * penalty * r**2)
    assert_allclose(model.weight.numpy(), r * a * np.array([[1, -1], [-1, 1]]), atol=1e-3)
    margins = predict(model, given).logits / float(model.scale)
    assert_allclose(margins, r * a * np.array([[1, -1], [-1, 1]]), atol=1e-3)
