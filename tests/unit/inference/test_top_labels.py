"""Tests of predictions of which only the most probable labels are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from epigram.core.ragged import Ragged
from epigram.inference import measure
from epigram.inference.top_labels import TopPredicted, predict_top
from epigram.models.batches import TextBatches
from epigram.models.predict import Predicted, predict
from epigram.nn.layers.types import Prediction

CLASSES, ROWS = 40, 150


class Table(nn.Module):
    """Logits (B, C) of the first token of each text, and those of two classifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(500, CLASSES, generator=torch.Generator().manual_seed(0)))

    def forward(self, tokens: Any) -> Prediction:
        """Return the predictions for a batch."""
        logits: Tensor = self.weight[tokens.ids[:, 0]]
        return Prediction(logits, parts=torch.stack([logits, -logits]))


@pytest.fixture
def texts() -> TextBatches:
    """Return texts of different lengths, so that they are predicted in another order than they have."""
    draw = np.random.default_rng(0)
    ids = Ragged.from_lengths(draw.integers(2, 500, ROWS * 3), np.array([1, 5, 3] * (ROWS // 3)))
    labels = draw.integers(0, CLASSES, ROWS)
    return TextBatches(ids, prefix=[], suffix=[], max_length=9, pad_id=0, unk_id=1, labels=labels)


def test_the_labels_that_are_kept_are_those_of_all_logits_in_the_order_of_the_texts(texts: TextBatches) -> None:
    model = Table()
    whole, top = predict(model, texts, precision="fp32"), predict_top(model, texts, precision="fp32")
    np.testing.assert_array_equal(top.probabilities.predicted[0], whole.logits.argmax(1))
    np.testing.assert_allclose(top.probabilities.confidence[0], whole.probabilities.max(1), rtol=1e-5)
    np.testing.assert_allclose(top.probabilities.rest[0], 1 - np.sort(whole.probabilities)[:, -20:].sum(1), atol=1e-6)
    labels = whole.logits.argmax(1)
    labels[:30] += 1
    assert top.scores(labels) == whole.scores(labels)
    assert top.scores(labels)[0] == 0.8


@pytest.mark.parametrize(
    ("task", "labels", "token_labels", "kind"),
    [
        ("single", 21, [], TopPredicted),
        ("single", 20, [], Predicted),
        ("multi", 21, [], Predicted),
        ("single", 21, ["O", "X"], Predicted),
    ],
)
def test_one_label_out_of_more_than_twenty_keeps_the_most_probable_ones(
    task: str, labels: int, token_labels: list[str], kind: type, texts: TextBatches
) -> None:
    view: Any = SimpleNamespace(task=task, labels=["x"] * labels, token_labels=token_labels)
    assert type(measure._predict(Table(), texts, view, "fp32")) is kind


def test_the_seeds_are_joined(texts: TextBatches) -> None:
    seed = predict_top(Table(), texts, precision="fp32")
    part: Any = SimpleNamespace(words=None)
    assert measure.combine_seeds([seed, seed], part, None).probabilities.shape == (2, ROWS, CLASSES)
