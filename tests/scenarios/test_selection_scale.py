"""The scale of the linear SVM's margins is fitted on dev; the margin and the scale are computed by hand.

Every text is one word, which decides the label in train. With n rows in total, half of each class, the squared hinge
loss ½(w² + w²) + n(1 − w)² is minimal at w = n / (n + 1), which is every margin. In dev the word is right in 12 of 16
rows. With targets that are smoothed by 1/18, the likelihood is highest at probability 13/18 for the word's label.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epigram.core.arrays import Ragged
from epigram.models.batches import TextBatches
from epigram.models.predict import predict
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.training.fitters.linear_svm import fit

ROWS = 20
MARGIN = ROWS / (ROWS + 1)
SHARE = 13 / 18  # of the 16 rows of dev that are right, smoothed
LOG_ODDS = np.log(SHARE / (1 - SHARE))
WORDS = np.arange(ROWS) % 2  # the word of each row, and its label in train


def texts(labels: np.ndarray) -> TextBatches:
    """Return one-word texts with `labels`."""
    return TextBatches(
        Ragged((5 + WORDS).astype(np.int32), np.arange(ROWS + 1)), prefix=[], suffix=[], max_length=8, pad_id=0,
        unk_id=1, labels=labels,
    )  # fmt: skip


def three_of_four() -> np.ndarray:
    """Return the labels of dev: those of the words in three of four rows of each word."""
    return np.where(np.arange(ROWS) // 2 % 4 == 3, 1 - WORDS, WORDS)[: ROWS - 4]


def fitted(train: np.ndarray, dev: np.ndarray, *, multi: bool) -> tuple[Any, np.ndarray]:
    """Return the SVM and the probabilities of the two words."""
    model: Any = RECIPES["tfidf_svm"].build(DataSpec(vocabulary=9, classes=2, max_length=8, multi=multi))
    held = TextBatches(
        Ragged((5 + WORDS[: len(dev)]).astype(np.int32), np.arange(len(dev) + 1)), prefix=[], suffix=[], max_length=8,
        pad_id=0, unk_id=1, labels=dev,
    )  # fmt: skip
    fit(model, texts(train), held, seed=0)
    return model, predict(model, held).probabilities[:2]


def test_the_scale_of_one_label_is_that_of_dev() -> None:
    """p = σ(2·s·margin) = 13/18; train, where no row is wrong, would give 21/22."""
    model, said = fitted(WORDS, three_of_four(), multi=False)
    np.testing.assert_allclose(model.weight.numpy(), MARGIN * np.array([[1, -1], [-1, 1]]), atol=1e-3)
    np.testing.assert_allclose(model.bias.numpy(), 0, atol=1e-3)
    assert float(model.scale) == pytest.approx(LOG_ODDS / (2 * MARGIN), rel=1e-3)
    np.testing.assert_allclose(said, [[SHARE, 1 - SHARE], [1 - SHARE, SHARE]], atol=1e-3)


def test_the_scale_of_several_labels_is_that_of_dev() -> None:
    """Each label has its own SVM: p = σ(s·margin) = 13/18."""
    train, dev = (np.stack([labels == 0, labels == 1], axis=1).astype(np.uint8) for labels in (WORDS, three_of_four()))
    model, said = fitted(train, dev, multi=True)
    assert float(model.scale) == pytest.approx(LOG_ODDS / MARGIN, rel=1e-3)
    np.testing.assert_allclose(said, [[SHARE, 1 - SHARE], [1 - SHARE, SHARE]], atol=1e-3)


def test_a_dev_set_without_a_mistake_is_as_sure_as_its_rows_allow() -> None:
    """All of 20 rows are right: 21/22, not a certainty."""
    _, said = fitted(WORDS, WORDS, multi=False)
    np.testing.assert_allclose(said.diagonal(), 21 / 22, atol=1e-3)


def test_a_dev_set_of_mistakes_takes_the_smallest_scale() -> None:
    model, said = fitted(WORDS, 1 - WORDS, multi=False)
    assert float(model.scale) == pytest.approx(np.exp(-5), rel=1e-3)
    np.testing.assert_allclose(said, 0.5, atol=0.01)
