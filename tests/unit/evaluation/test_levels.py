"""Scores of each level of labels that are paths: known answers, and those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn

from epigram.evaluation.ensemble.build_ensemble import build
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.levels import label_levels, level_scores
from epigram.evaluation.metrics.metric_rows import Decided
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.records.results import Evaluated, LevelScores, Task
from epigram.evaluation.settings import EnsembleSettings
from epigram.evaluation.splits import SystemOutput, Target
from tests.support.evaluation_samples import SETTINGS, cost, probabilities, split

LABELS = ["goods/phone", "goods/desk/oak", "food/fruit", "other", "goods/desk/ash"]
DRAWS = {"resamples": 500, "confidence": 0.95}


def scored(gold: np.ndarray, predicted: np.ndarray, spread: float = 1.0) -> list[LevelScores]:
    known = Decided(gold, predicted, np.zeros((len(predicted), len(gold), len(LABELS))))
    return level_scores(known, LABELS, "/", spread, **DRAWS)


def test_a_label_with_fewer_parts_is_itself_on_the_levels_below() -> None:
    assert [level.tolist() for level in label_levels(LABELS, "/")] == [
        [0, 0, 1, 2, 0],
        [0, 1, 2, 3, 1],
        [0, 1, 2, 3, 4],
    ]


def test_equal_parts_below_different_labels_are_different_labels() -> None:
    levels = label_levels(["goods/other", "food/other", "other"], "/")
    assert [level.tolist() for level in levels] == [[0, 1, 2], [0, 1, 2]]


def test_a_confusion_below_a_level_is_right_on_it() -> None:
    """Of six texts, oak for ash is wrong on level 3 alone, desk for phone on two, and fruit for other on all."""
    gold, predicted = np.array([0, 1, 2, 3, 4, 0]), np.array([[0, 1, 2, 2, 1, 4]])
    levels = scored(gold, predicted)
    assert [(each.level, each.labels) for each in levels] == [(1, 3), (2, 4), (3, 5)]
    assert [each.accuracy.value for each in levels] == pytest.approx([5 / 6, 4 / 6, 3 / 6])
    # goods 1, food 2/3, other 0; then phone 2/3, desk 4/5, fruit 2/3, other 0
    assert [each.macro_f1.value for each in levels[:2]] == pytest.approx([5 / 9, (2 / 3 + 4 / 5 + 2 / 3) / 4])
    assert levels[2].macro_f1.value == pytest.approx(sklearn.f1_score(gold, predicted[0], average="macro"))


def test_of_several_labels_a_level_has_a_label_if_one_below_it_is_there() -> None:
    gold = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]], dtype=np.uint8)
    predicted = np.array([[[0, 1, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 1, 0]]], dtype=bool)
    levels = scored(gold, predicted)
    assert [each.accuracy.value for each in levels] == pytest.approx([2 / 3, 1 / 3, 0.0])
    top = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]])
    assert levels[0].macro_f1.value == pytest.approx(
        sklearn.f1_score(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]]), top, average="macro")
    )


def test_intervals_of_folds_are_wider() -> None:
    gold = np.random.default_rng(0).integers(0, 5, 200)
    predicted = np.where(np.arange(200) % 3, gold, (gold + 1) % 5)[None]
    narrow, wide = scored(gold, predicted), scored(gold, predicted, spread=1.5)
    for one, other in zip(narrow, wide, strict=True):
        for name in ("accuracy", "macro_f1"):
            small, large = getattr(one, name), getattr(other, name)
            assert small.low < small.value < small.high
            assert large.high - large.value == pytest.approx(1.5 * (small.high - small.value))


@pytest.mark.parametrize("task", ["single", "multi"])
def test_systems_and_their_ensemble_have_levels_if_the_data_set_names_a_separator(task: Task) -> None:
    """The wrong label of a text is the next one, which is below the same first part for the first of five labels."""
    splits = [split(100, 5, task=task), split(100, 5, first=100, task=task)]

    def system(name: str, wrong: set[int], hierarchy: str = "/") -> Evaluated:
        return evaluate_system(
            name,
            Target(task=task, labels=LABELS, metric=metric_of("auto", task, LABELS), hierarchy=hierarchy),
            seeds=[0],
            dev=splits[0],
            test=splits[1],
            dev_output=SystemOutput(probabilities=probabilities(splits[0], [wrong], 5)),
            test_output=SystemOutput(probabilities=probabilities(splits[1], [wrong], 5)),
            costs=[cost()],
            settings=SETTINGS,
        )

    assert system("flat", set(), "").metrics.levels == []
    found = [system("one", set(range(0, 50, 5))), system("two", set(range(1, 100, 5)))]
    metrics = found[0].metrics
    assert (metrics.hierarchy, len(metrics.levels)) == ("/", 3)
    assert metrics.levels[2].accuracy.value == pytest.approx(metrics.test.accuracy)
    assert metrics.levels[2].macro_f1.value == pytest.approx(metrics.test.macro_f1)
    if task == "single":
        assert [each.accuracy.value for each in metrics.levels] == pytest.approx([1.0, 0.9, 0.9])
    ensemble = build(found, splits, EnsembleSettings(), SETTINGS).evaluation
    assert ensemble is not None and len(ensemble.metrics.levels) == 3
