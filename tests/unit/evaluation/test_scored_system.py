"""Test of what each row adds to the score that ranks the systems: the thresholds are those of dev, on both splits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from epigram.core.errors import DataError
from epigram.evaluation.results import read_evaluation, write_evaluation
from epigram.evaluation.scored_system import TRUTH, scored_system
from tests.support.evaluation_samples import system


@pytest.mark.parametrize(("split", "counted"), [("dev", [2, 0, 2, 0]), ("test", [2, 1, 1, 2])])
def test_the_labels_of_dev_and_test_are_above_the_thresholds_of_the_model(split: str, counted: list[int]) -> None:
    """The threshold is 0.3, between the labels of dev; one tuned on test, above 0.6, would predict two rows right."""
    given: dict[str, Any] = dict.fromkeys(TRUTH) | {
        f"{part}_{name}": None
        for part in ("dev", "test")
        for name in ("word_predictions", "word_offsets", "top_labels", "rest")
    }
    given |= {
        "test_folds": None,
        "dev_labels": np.array([[1], [0], [1], [0]]),
        "test_labels": np.array([[1], [0], [0], [1]]),
    }
    given |= {"dev_probabilities": np.array([[[0.4], [0.2], [0.45], [0.1]]])}
    given |= {"test_probabilities": np.array([[[0.9], [0.5], [0.6], [0.8]]])}
    given |= {"dev_rows": np.arange(4), "test_rows": np.arange(4)}
    metrics = SimpleNamespace(
        score="micro_f1", task="multi", labels=["a"], decision="threshold", seeds=[SimpleNamespace(thresholds=[0.3])]
    )
    evaluation: Any = SimpleNamespace(metrics=metrics, predictions=SimpleNamespace(**given))
    assert getattr(scored_system(evaluation), split).possible.tolist() == [counted]


def test_arrays_with_other_names_are_refused(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "one", system("one", [{1}], [{2}]))
    file = tmp_path / "one/predictions.safetensors"
    save_file({**load_file(file), "dev_lables": np.zeros(1)}, file)
    with pytest.raises(DataError, match=r"has unknown arrays dev_lables; delete .*one and run dvc repro"):
        read_evaluation(tmp_path / "one")
