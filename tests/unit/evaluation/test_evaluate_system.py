"""Tests of what the metrics of a system are computed from, on dev and test splits that disagree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.records.results import Metrics
from epigram.evaluation.splits import SystemOutput, Target
from tests.support.evaluation_samples import SETTINGS, cost, split, words


def evaluated(*, plain: int, test: np.ndarray) -> Metrics:
    """Return the metrics on eight texts of the classes 0, 1, 0, 1, …; dev is predicted right with probability 0.9."""
    truth = replace(split(8, 2), words=words(8))
    right = np.where(truth.labels[:, None] == np.arange(2), 0.9, 0.1)
    return evaluate_system(
        "mine",
        Target(task="single", labels=["no", "yes"], plain=plain),
        seeds=[0],
        dev=truth,
        test=truth,
        dev_output=SystemOutput(probabilities=right[None]),
        test_output=SystemOutput(probabilities=test[None]),
        costs=[cost()],
        settings=SETTINGS,
    ).metrics


def test_the_reliability_diagram_shows_the_test_set() -> None:
    """Every test text is predicted as class 0 with probability 0.6, which is right for half of them."""
    filled = [each for each in evaluated(plain=0, test=np.tile([0.6, 0.4], (8, 1))).reliability if each.count]
    assert [each.count for each in filled] == [8]
    assert (filled[0].confidence, filled[0].accuracy) == pytest.approx((0.6, 0.5))


@pytest.mark.parametrize(("plain", "f1"), [(0, 0.0), (1, 2 / 3)])
def test_the_f1_of_texts_leaves_out_the_plain_class(plain: int, f1: float) -> None:
    """All texts are predicted as class 0: its recall is 1 and its precision a half; class 1 is never predicted."""
    found = evaluated(plain=plain, test=np.tile([0.6, 0.4], (8, 1)))
    assert found.plain == ["no", "yes"][plain]
    assert found.sentence_f1 is not None
    assert found.sentence_f1.value == pytest.approx(f1)


def test_the_thresholds_of_the_models_label_dev_and_test_and_are_those_of_the_report() -> None:
    """Dev says 0.5; above 0.85, no label is predicted."""
    truth = split(8, 2, task="multi")
    known = np.where(truth.labels > 0, 0.8, 0.2).astype(np.float32)[None]
    found = [
        evaluate_system(
            "student",
            Target(task="multi", labels=["no", "yes"]),
            seeds=[0],
            dev=truth,
            test=truth,
            dev_output=SystemOutput(probabilities=known),
            test_output=SystemOutput(probabilities=known),
            costs=[cost()],
            settings=SETTINGS,
            thresholds=thresholds,
        )
        for thresholds in (None, np.array([[0.85, 0.9]], np.float32))
    ]
    assert [each.metrics.test_score.value for each in found] == [1.0, 0.0]
    assert [each.metrics.dev_score.value for each in found] == [1.0, 0.0]
    own, stored = (each.metrics.seeds[0].thresholds for each in found)
    assert (own, stored) == (pytest.approx([0.5, 0.5]), pytest.approx([0.85, 0.9]))
    assert [scored_system(each).test.scores()[0] for each in found] == [1.0, 0.0]
