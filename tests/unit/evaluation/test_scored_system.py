"""Test of what each row adds to the score that ranks the systems: the thresholds are those of dev, on both splits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from epigram.core.errors import DataError
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.records.results import Evaluated, read_evaluation, write_evaluation
from epigram.evaluation.records.split_record import SplitRecord
from tests.support.evaluation_samples import system


@pytest.mark.parametrize(("split", "counted"), [("dev", [2, 0, 2, 0]), ("test", [2, 1, 1, 2])])
def test_the_labels_of_dev_and_test_are_above_the_thresholds_of_the_model(split: str, counted: list[int]) -> None:
    """The threshold is 0.3, between the labels of dev; one tuned on test, above 0.6, would predict two rows right."""
    dev, test = (
        SplitRecord(probabilities=np.array([[[p] for p in said]]), labels=np.array(gold)[:, None], rows=np.arange(4))
        for said, gold in (([0.4, 0.2, 0.45, 0.1], [1, 0, 1, 0]), ([0.9, 0.5, 0.6, 0.8], [1, 0, 0, 1]))
    )
    metrics: Any = SimpleNamespace(
        score="micro_f1", task="multi", labels=["a"], decision="threshold", seeds=[SimpleNamespace(thresholds=[0.3])]
    )
    evaluation = Evaluated(metrics=metrics, dev=dev, test=test)
    assert getattr(scored_system(evaluation), split).possible.tolist() == [counted]


def test_arrays_with_other_names_are_refused(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "one", system("one", [{1}], [{2}]))
    file = tmp_path / "one/predictions.safetensors"
    save_file({**load_file(file), "dev_lables": np.zeros(1)}, file)
    with pytest.raises(DataError, match=r"has unknown arrays dev_lables; delete .*one and run dvc repro"):
        read_evaluation(tmp_path / "one")
