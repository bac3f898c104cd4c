"""Tests of fits in the space of the texts: they have the weights of fits on all features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from epigram.training.linear.row_space import deviations, from_row_space, in_row_space

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(12, 40))
LABELS = np.arange(12) % 3


@pytest.mark.parametrize("model", [LogisticRegression(tol=1e-10, max_iter=9_999), LinearSVC(tol=1e-9, max_iter=99_999)])
def test_the_weights_are_those_of_a_fit_on_all_features(model: Any) -> None:
    coordinates, basis = in_row_space(X)
    assert coordinates.shape == (12, 12)
    whole, bias = model.fit(X, LABELS).coef_.copy(), model.intercept_.copy()
    fitted = model.fit(coordinates, LABELS)
    assert_allclose(from_row_space(fitted.coef_.T, basis).T, whole, atol=1e-5)
    assert_allclose(fitted.intercept_, bias, atol=1e-5)


def test_the_basis_gives_the_rows_back() -> None:
    coordinates, basis = in_row_space(X)
    assert basis is not None
    assert_allclose(coordinates @ basis.T, X, atol=1e-12)
    assert_allclose(basis.T @ basis, np.eye(12), atol=1e-12)


@pytest.mark.parametrize("count", [40, 41])
def test_as_many_texts_as_features_are_left_as_they_are(count: int) -> None:
    x = RANDOM.normal(size=(count, 40))
    coordinates, basis = in_row_space(x)
    assert coordinates is x
    assert basis is None
    assert from_row_space(x.T, basis) is not None


def test_a_feature_that_is_constant_up_to_rounding_has_the_deviation_one() -> None:
    x = np.array([[1.0, 5.0, 1e-30, 0.0], [3.0, 5.0, 3e-30, 2e-5]])
    assert deviations(x).tolist() == [1.0, 1.0, 1.0, 1e-5]
    assert deviations(np.full((3, 2), 7.0)).tolist() == [1.0, 1.0]
