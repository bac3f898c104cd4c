"""Test of what each row adds to the score that ranks the systems: the thresholds are those of dev, on both splits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epigram.evaluation.scored_system import TRUTH, scored_system


@pytest.mark.parametrize(("split", "counted"), [("dev", [2, 0, 2, 0]), ("test", [2, 1, 1, 2])])
def test_the_thresholds_of_several_labels_are_tuned_on_dev_alone(split: str, counted: list[int]) -> None:
    """The threshold of dev is at most 0.4; one tuned on test, above 0.6, would predict two rows right."""
    given: dict[str, Any] = dict.fromkeys(TRUTH) | {
        f"{part}_{name}": None
        for part in ("dev", "test")
        for name in ("word_predictions", "word_offsets", "top_labels", "rest")
    }
    given |= {"dev_labels": np.array([[1], [0], [1], [0]]), "test_labels": np.array([[1], [0], [0], [1]])}
    given |= {"dev_probabilities": np.array([[[0.4], [0.2], [0.45], [0.1]]])}
    given |= {"test_probabilities": np.array([[[0.9], [0.5], [0.6], [0.8]]])}
    given |= {"dev_rows": np.arange(4), "test_rows": np.arange(4)}
    metrics = SimpleNamespace(score="micro_f1", task="multi", labels=["a"], decision="threshold", seeds=[0])
    evaluation: Any = SimpleNamespace(metrics=metrics, predictions=SimpleNamespace(**given))
    assert getattr(scored_system(evaluation), split).possible.tolist() == [counted]
