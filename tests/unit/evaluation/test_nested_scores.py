"""Tests of the scores of a nested cross-validation: thresholds, the ensemble and the choice come from other folds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from epigram.core.config_types import validate_as
from epigram.core.errors import DataError
from epigram.evaluation.arrays import Ints
from epigram.evaluation.build_ensemble import build
from epigram.evaluation.comparison import compare
from epigram.evaluation.decisions import nested_thresholds, predict_labels
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.results import Evaluation, read_evaluation, write_evaluation
from epigram.evaluation.scored_system import scored_system
from epigram.evaluation.settings import EnsembleSettings
from epigram.evaluation.splits import SystemOutput, Target
from epigram.evaluation.summary import Corpus, Summary
from epigram.evaluation.thresholds import tuned_thresholds
from epigram.report.page import render
from epigram.report.terminal import comparison_table
from tests.support.evaluation_samples import SETTINGS, corpus, cost, probabilities, split

ROWS = 100
FOLDS = np.arange(ROWS) // 25


def nested(
    name: str, dev_wrong: set[int], nested_wrong: set[int], folds: Ints = FOLDS, temperatures: list[float] | None = None
) -> Evaluation:
    """Return the evaluation of a system by the predictions of a cross-validation and of a nested one."""
    truth = replace(split(ROWS, 2), in_train=np.zeros(ROWS, np.bool_))
    return evaluate_system(
        name,
        Target(task="single", labels=["neg", "pos"]),
        seeds=[0],
        dev=truth,
        test=replace(truth, folds=folds),
        dev_output=SystemOutput(probabilities=probabilities(truth, [dev_wrong], 2)),
        test_output=SystemOutput(probabilities=probabilities(truth, [nested_wrong], 2)),
        costs=[cost()],
        settings=SETTINGS,
        temperatures=temperatures,
    )


def compared(*evaluations: Evaluation) -> Summary:
    return compare(validate_as(Corpus, corpus()), evaluations, 0.05, "best")


def test_each_fold_has_the_thresholds_of_the_others() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, (40, 3)).astype(np.uint8)
    known, folds = draw.random((2, 40, 3)), np.arange(40) % 2
    found = nested_thresholds(labels, known, "threshold", folds)
    for seed in range(2):
        for fold in range(2):
            other = folds != fold
            wanted = tuned_thresholds(labels[other].astype(bool), known[seed, other])
            assert_array_equal(found[seed, ~other], np.tile(wanted, (20, 1)))
    predicted = predict_labels("multi", labels, known, found).predicted
    assert_array_equal(predicted, known > found)
    assert (found[0, 0] != found[0, 1]).any()


def test_the_rows_of_test_are_labelled_by_their_own_thresholds_in_the_evaluation_and_in_the_comparison() -> None:
    """The thresholds of the first fold are above all probabilities, those of the others below all."""
    truth = replace(split(ROWS, 3, task="multi"), in_train=np.zeros(ROWS, np.bool_))
    known = probabilities(truth, [set()], 3)
    thresholds = np.where(FOLDS[:, None] == 0, 0.99, 0.01) * np.ones((1, ROWS, 3))
    found = evaluate_system(
        "many",
        Target(task="multi", labels=["a", "b", "c"]),
        seeds=[0],
        dev=truth,
        test=replace(truth, folds=FOLDS),
        dev_output=SystemOutput(probabilities=known),
        test_output=SystemOutput(probabilities=known, thresholds=thresholds),
        costs=[cost()],
        settings=SETTINGS,
    )
    gold, predicted = truth.labels.sum(), 3 * (FOLDS > 0).sum()
    hits = truth.labels[FOLDS > 0].sum()
    assert found.metrics.test_score.value == pytest.approx(2 * hits / (gold + predicted))
    assert scored_system(found).test.scores() == pytest.approx(2 * hits / (gold + predicted))
    assert scored_system(found).dev.scores() == pytest.approx(1.0)


def test_a_decoder_has_the_same_thresholds_in_all_folds() -> None:
    labels, known = np.ones((4, 2), np.uint8), np.full((1, 4, 2), 0.4)
    assert (nested_thresholds(labels, known, "decoder", np.arange(4) % 2) == 0.5).all()


def test_the_system_of_each_fold_is_the_one_that_the_others_choose() -> None:
    """`first` is best on dev but for fold 0, which `second` predicts: so fold 0 is scored with `first`.

    Without fold 0, `first` has 75 of 75 rows and `second` 57. Without any other fold, `first` has 50 of 75 and `second`
    63. All folds together choose `second`.
    """
    first = nested("first", set(range(25)), set(range(25)))
    second = nested("second", set(range(25, 43)), set(range(25, 35)))
    summary = compared(first, second)
    assert summary.chosen_system == "second"
    assert summary.nested is not None
    assert summary.nested.value == pytest.approx((0 + 15 + 25 + 25) / 100)
    assert summary.nested.low < summary.nested.value < summary.nested.high
    row = next(row for row in summary.rows if row.system == "second")
    assert row.test_score == pytest.approx(0.9)
    assert "reaches 90.0% in a nested cross-validation (95%" in summary.verdict
    assert "If the other folds choose the system for each fold, the score is 65.0% (" in summary.verdict
    assert summary.verdict.endswith("They choose by predictions whose settings were chosen on all folds.")


def test_the_table_says_that_there_is_no_test_split() -> None:
    summary = compared(nested("one", {1}, {2}))
    captions = [str(comparison_table(each).caption) for each in (summary, replace(summary, nested=None))]
    assert ["nested cross-validation" in each for each in captions] == [True, False]


def test_one_system_has_no_choice_to_score() -> None:
    assert "the other folds choose" not in compared(nested("only", {1}, {2})).verdict


def test_systems_with_other_folds_are_not_compared() -> None:
    other = nested("other", {1}, {2}, FOLDS[::-1].copy())
    with pytest.raises(DataError, match="test_folds"):
        compared(nested("one", {1}, {2}), other)


def test_the_ensemble_predicts_a_fold_by_the_weights_of_the_others() -> None:
    """`many` is right in fold 0 alone, which has 60 rows, and `few` in fold 1, which has 40.

    All rows together would choose `many`. Each fold chooses the one that is wrong in the other fold.
    """
    folds = np.repeat([0, 1], [60, 40])
    many, few = (
        nested(name, wrong, wrong, folds) for name, wrong in (("many", {*range(60, 100)}), ("few", {*range(60)}))
    )
    truth = replace(split(ROWS, 2), in_train=np.zeros(ROWS, np.bool_))
    found = build([many, few], [truth, replace(truth, folds=folds)], EnsembleSettings(), SETTINGS).evaluation
    assert found is not None
    assert found.metrics.test_score.value == 0.0
    assert_array_equal(found.predictions.test_folds, folds)


def test_the_calibration_of_folds_has_no_error_without_the_temperature(tmp_path: Path) -> None:
    """Each fold has another temperature, and the evaluation knows only that of the final model."""
    found = nested("one", {1}, {2}, temperatures=[2.0])
    for calibration in (found.metrics.calibration, found.metrics.seeds[0].calibration):
        assert (calibration.temperature, calibration.ece_uncalibrated) == (2.0, None)
    write_evaluation(tmp_path / "one", found)
    assert read_evaluation(tmp_path / "one").metrics == found.metrics
    page = render(compared(found), {"one": found.metrics}, {}, "")
    assert "calibration error" in page and "uncalibrated" not in page
