"""Tests that the fit of a linear SVM holds its weights (F, C) in memory once."""

from __future__ import annotations

import tracemalloc
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import pytest
from scipy.sparse import random_array

from epigram.models.linear_svm import AUTO, SvmSettings
from epigram.models.predict import Predicted
from epigram.training.linear.svm import SvmOptions, fit_svms
from epigram.training.linear.svm_search import SvmProblem, choose
from epigram.training.linear.tfidf import fit_features
from tests.support.svm_texts import svm_of, words

FEATURES, CLASSES = 20_000, 20


class Fit:
    """Fit that can be watched."""


class Watched(SvmProblem):
    """Problem that asserts that no earlier fit is in memory when the next one starts."""

    alive: ClassVar[WeakSet[Fit]] = WeakSet()

    def solve(self, settings: SvmSettings) -> Any:
        """Return a fit."""
        assert not self.alive, "an earlier fit is in memory"
        fit = Fit()
        self.alive.add(fit)
        return fit

    def margins(self, settings: SvmSettings, solution: Any) -> Predicted:
        """Return undecided margins."""
        return Predicted(np.zeros((len(self.wanted), 2), np.float32), None)


@pytest.mark.parametrize("weighting", ["tfidf", "naive_bayes"])
@pytest.mark.parametrize("multi", [False, True])
def test_a_fit_makes_no_copy_of_the_weights(weighting: Any, multi: bool) -> None:
    x = random_array((2 * CLASSES, FEATURES), density=1e-3, format="csr", rng=0)
    labels = np.tile(np.eye(CLASSES, dtype=np.int64), (2, 1)) if multi else np.arange(2 * CLASSES) % CLASSES
    options = SvmOptions(1.0, 0, "none", weighting)
    fit_svms(x, labels, CLASSES, options)  # imports modules
    tracemalloc.start()
    try:
        weight, _ = fit_svms(x, labels, CLASSES, options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert weight.shape == (FEATURES, CLASSES)
    assert weight.flags.c_contiguous  # a product with a sparse matrix copies other layouts
    assert peak < 1.5 * weight.nbytes


def test_the_features_come_without_weights() -> None:
    model = svm_of(orders=[1])
    assert fit_features(model, words([0, 1], [5, 6])).shape == (2, 2)
    assert model.weight.shape == (0, 2)


def test_a_fold_is_fitted_after_the_fit_of_the_last_one_is_freed() -> None:
    texts = words([0, 1], [5, 6])
    folds = [Watched(svm_of(penalty=AUTO), texts, texts, seed=0, class_weight="none") for _ in range(3)]
    assert choose(folds).solution is None
