"""Tests of the list of the most confident errors."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.mistakes import most_confident_errors

TEXTS = ["first", "second", "third"]


def test_a_missed_label_is_as_confident_as_its_absence() -> None:
    """The second text lacks its label with probability 0.9, the first with 0.6; the third has one too many, at 0.7."""
    gold, probabilities = np.array([[1, 0], [1, 0], [0, 0]]), np.array([[[0.4, 0.0], [0.1, 0.0], [0.0, 0.7]]])
    predictions = predict_labels("multi", gold, probabilities, np.full((1, 2), 0.5))
    found = most_confident_errors(predictions, ["a", "b"], np.arange(3), TEXTS, 3)
    assert [(each.text, each.gold, each.predicted) for each in found] == [
        ("second", ["a"], []),
        ("third", [], ["b"]),
        ("first", ["a"], []),
    ]
    assert [each.probability for each in found] == pytest.approx([0.9, 0.7, 0.6])
