"""Tests of the fitted weights and biases of the linear SVM, on texts with a known solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvm, LinearSvmConfig
from epigram.nn.layers.types import DataSpec
from epigram.training.fitters.linear_svm import fit
from epigram.training.linear.svm import SvmOptions, fit_svms


def texts(rows: list[list[int]], labels: list[int]) -> TextBatches:
    ids = Ragged.from_lists(rows, np.int64)
    frame = {"prefix": [], "suffix": [], "max_length": 8, "pad_id": 0, "unk_id": 1}
    return TextBatches(ids, labels=np.array(labels), **frame)  # type: ignore[arg-type]


def fitted(rows: list[list[int]], labels: list[int], **config: Any) -> LinearSvm:
    """Return a fitted linear SVM of two classes and unigrams."""
    context, given = DataSpec(vocabulary=20, classes=2, max_length=8), texts(rows, labels)
    model = LinearSvmConfig(orders=[1], **config).build(context)
    fit(model, given, given, seed=0)
    return model


@pytest.mark.parametrize("penalty", [0.25, 1.0, 4.0])
def test_the_weights_are_those_that_minimise_the_penalized_loss(penalty: float) -> None:
    # Two texts, one token each, so w = (-a, a) and b = 0. The minimum of a² + 2C(1 - a)² is at a = 2C / (1 + 2C).
    model, a = fitted([[5], [6]], [0, 1], penalty=penalty), 2 * penalty / (1 + 2 * penalty)
    assert_allclose(model.weight.numpy(), [[a, -a], [-a, a]], atol=1e-3)
    assert_allclose(model.bias.numpy(), [0, 0], atol=1e-3)


@pytest.mark.parametrize("frequent", [0, 1])
def test_a_text_without_known_tokens_gets_the_more_frequent_of_two_classes(frequent: int) -> None:
    rows = [[5 + number] for number in range(10)]  # each text has a token of its own
    model = fitted(rows, [frequent] * 9 + [1 - frequent])
    [logits] = model(texts([[18]], [0]).gather(np.array([0]))).logits.tolist()
    assert logits[frequent] > 0.1
    assert logits[1 - frequent] == pytest.approx(-logits[frequent], abs=1e-5)


@pytest.mark.parametrize("weighting", ["tfidf", "naive_bayes"])
@pytest.mark.parametrize("multi", [False, True])
def test_each_class_gets_the_weights_of_its_own_tokens(weighting: Any, multi: bool) -> None:
    own = np.eye(4, dtype=np.int64)
    labels = own if multi else np.arange(4)
    weight, bias = fit_svms(csr_array(own.astype(float)), labels, 4, SvmOptions(1.0, 0, "none", weighting))
    assert_array_equal(weight > 0, own == 1)
    assert bias.shape == (4,)
