"""Tests of out-of-fold scores: thresholds and ensemble come from other folds, and the optimism is subtracted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from epigram.core.config_types import validate_as
from epigram.core.errors import DataError
from epigram.evaluation.arrays import Ints
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.ensemble.build_ensemble import build
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.intervals import fold_spread
from epigram.evaluation.records.results import Cost, Evaluated, read_evaluation, write_evaluation
from epigram.evaluation.records.summary import Corpus, Summary
from epigram.evaluation.settings import EnsembleSettings, Preference
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target
from epigram.evaluation.tuning.thresholds import tuned_thresholds
from epigram.report.columns import comparison_markdown
from epigram.report.page import render
from epigram.report.terminal import comparison_table
from tests.support.evaluation_samples import SETTINGS, corpus, cost, probabilities, split

ROWS = 100
FOLDS = np.arange(ROWS) // 25


def folded(name: str, wrong: set[int], folds: Ints = FOLDS, **about: Any) -> Evaluated:
    """Return the evaluation of a system by its out-of-fold predictions, without a test split."""
    return evaluated_on(out_of_fold(folds), wrong, name, **about)


def evaluated_on(
    truth: GoldSplit,
    wrong: set[int],
    name: str = "one",
    *,
    temperatures: list[float] | None = None,
    price: Cost | None = None,
    sure: float = 0.8,
) -> Evaluated:
    """Return the evaluation of a system whose predictions for dev and test are the same, and `sure` of a label."""
    known = probabilities(truth, [wrong], 2)
    output = SystemOutput(probabilities=np.where(known > 0.5, sure, 1 - sure))
    return evaluate_system(
        name,
        Target(task="single", labels=["neg", "pos"]),
        seeds=[0],
        dev=truth,
        test=truth,
        dev_output=output,
        test_output=output,
        costs=[price or cost()],
        settings=SETTINGS,
        temperatures=temperatures,
    )


def out_of_fold(folds: Ints = FOLDS, **about: Any) -> GoldSplit:
    """Return a split of rows of train with their folds."""
    return replace(split(ROWS, 2, **about), in_train=np.zeros(ROWS, np.bool_), folds=folds)


def compared(*evaluations: Evaluated, test: int = 0, prefer: Preference = "cheapest") -> Summary:
    about = corpus()
    known = validate_as(Corpus, {**about, "rows": {"train": ROWS, "dev": 0, "test": test}})
    return compare(known, evaluations, 0.05, prefer)


def test_each_fold_has_the_thresholds_of_the_others() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, (40, 3)).astype(np.uint8)
    known, folds = draw.random((2, 40, 3)), np.arange(40) % 2
    of_models = np.full((2, 3), 0.5)
    predicted = predict_labels("multi", labels, known, of_models, folds=folds).predicted
    for seed in range(2):
        for fold in range(2):
            other = folds != fold
            wanted = tuned_thresholds(labels[other].astype(bool), known[seed, other])
            assert_array_equal(predicted[seed, ~other], known[seed, ~other] > wanted)
    assert_array_equal(predict_labels("multi", labels, known, of_models).predicted, known > 0.5)
    assert (of_models == 0.5).all()


def test_a_decoder_has_the_same_thresholds_in_all_folds() -> None:
    """Tuned thresholds would be below 0.4, as all rows have both labels."""
    labels, known, folds = np.ones((4, 2), np.uint8), np.full((1, 4, 2), 0.4), np.arange(4) % 2
    found = [
        predict_labels("multi", labels, known, np.full((1, 2), 0.5), decision, folds).predicted
        for decision in ("decoder", "threshold")
    ]
    assert [each.all() for each in found] == [False, True]


def test_the_rows_of_a_fold_are_labelled_by_the_other_folds_in_the_evaluation_and_in_the_comparison() -> None:
    """In one fold, gold labels have the probability 0.2, and others 0.1; in the other fold, 0.8 and 0.7.

    The thresholds of a fold, 0.15 or 0.75, are wrong for all rows of the other. The model's 0.75 would be right there.
    """
    truth = out_of_fold(folds=FOLDS // 2, task="multi")
    high, low = np.where(truth.labels > 0, 0.8, 0.7), np.where(truth.labels > 0, 0.2, 0.1)
    known = np.where(truth.folds[:, None] == 0, low, high)[None]
    output = SystemOutput(probabilities=known)
    found = evaluate_system(
        "many",
        Target(task="multi", labels=["neg", "pos"]),
        seeds=[0],
        dev=truth,
        test=truth,
        dev_output=output,
        test_output=output,
        costs=[cost()],
        settings=SETTINGS,
        thresholds=np.full((1, 2), 0.75),
    )
    some = truth.folds == 1  # rows of fold 0 get no label, rows of fold 1 get both
    score = 2 * truth.labels[some].sum() / (truth.labels.sum() + 2 * some.sum())
    scored = scored_system(found)
    assert [found.metrics.dev_score.value, found.metrics.test_score.value] == pytest.approx([score, score])
    assert [scored.dev.scores()[0], scored.test.scores()[0]] == pytest.approx([score, score])
    assert found.metrics.seeds[0].thresholds == [0.75, 0.75]  # the final model's own


@pytest.mark.parametrize("test", [0, 50])
def test_without_a_test_split_the_chosen_score_is_less_the_optimism(test: int) -> None:
    """Two systems that are right on 80 other rows of 100: the better of a resample is better by chance."""
    systems = [folded("first", set(range(20))), folded("second", set(range(20, 40)))]
    summary = compared(*systems, test=test)
    assert summary.optimism is not None
    assert 0.005 < summary.optimism < 0.06
    chosen, other = summary.rows
    less = 0.0 if test else summary.optimism
    own = next(each for each in systems if each.metrics.system == chosen.system).metrics.test_score
    assert chosen.dev_score == other.test_score == pytest.approx(0.8)
    assert [chosen.test_score, chosen.test_low, chosen.test_high] == pytest.approx(
        [own.value - less, own.low - less, own.high - less]
    )
    points = f"{100 * summary.optimism:.1f}"
    where = "on the test set" if test else f"out of fold, less the expected optimism of the choice, {points} points"
    assert f"and reaches {100 * (0.8 - less):.1f}% {where} (95% interval " in summary.verdict


@pytest.mark.parametrize("prefer", ["cheapest", "best"])
def test_a_system_that_is_preferred_for_other_reasons_has_no_optimism(prefer: Preference) -> None:
    """Two tied systems: the cheaper and likelier one is chosen on nearly every resample, whatever its score."""
    likely, dear = folded("likely", set(range(20, 40)), price=cost(flops=1e5)), folded("dear", set(range(20)), sure=0.6)
    summary = compared(likely, dear, prefer=prefer)
    chosen = next(row for row in summary.rows if row.outcome == "chosen")
    assert chosen.system == "likely"
    assert summary.optimism is not None and summary.optimism > 0.005
    assert chosen.test_score == pytest.approx(chosen.dev_score, abs=0.002)
    assert "out of fold, less the expected optimism of the choice, 0." in summary.verdict


def test_the_interval_of_five_folds_is_half_as_wide_again() -> None:
    """Of K folds, the variance of rows counts 1 + K / (K − 1) times: 2.25 times for five."""
    assert [fold_spread(folds) for folds in (None, np.arange(10) % 5, np.arange(10) % 2)] == pytest.approx(
        [1, 1.5, 3**0.5]
    )
    five = np.arange(ROWS) % 5
    found = folded("one", set(range(40)), five).metrics
    apart = evaluated_on(replace(out_of_fold(five), folds=None), set(range(40))).metrics
    for name in ("dev_score", "test_score", "test_macro_f1"):
        wide, narrow = getattr(found, name), getattr(apart, name)
        assert wide.value == narrow.value
        assert [wide.low - wide.value, wide.high - wide.value] == pytest.approx(
            [1.5 * (narrow.low - narrow.value), 1.5 * (narrow.high - narrow.value)]
        )
    for wide, narrow in zip(found.slices, apart.slices, strict=True):
        assert wide.score.high - wide.score.low > narrow.score.high - narrow.score.low


def test_a_wide_interval_stays_within_0_and_1() -> None:
    found = folded("one", {1, 2}, np.arange(ROWS) % 5).metrics.test_score
    assert 0.9 < found.low < found.value < found.high == 1.0


def test_a_score_less_the_optimism_is_not_below_zero() -> None:
    summary = compared(folded("first", set(range(97))), folded("second", {*range(95), 98, 99}))
    assert summary.optimism is not None
    assert summary.rows[0].test_low == 0.0 < summary.rows[0].test_score


def test_one_system_has_no_optimism() -> None:
    summary = compared(folded("only", {2}))
    assert summary.rows[0].test_score == pytest.approx(0.99)
    assert "reaches 99.0% out of fold (95% interval" in summary.verdict


def test_the_table_says_that_there_is_no_test_split() -> None:
    for test in (0, 50):
        summary = compared(folded("one", {2}), test=test)
        for text in (str(comparison_table(summary).caption), comparison_markdown(summary)):
            assert ("out of fold, as there is no test split" in text) is (test == 0)


def test_systems_with_other_folds_are_not_compared() -> None:
    other = folded("other", {2}, FOLDS[::-1].copy())
    with pytest.raises(DataError, match="dev_folds"):
        compared(folded("one", {2}), other)


def test_the_ensemble_predicts_a_fold_by_the_weights_of_the_others() -> None:
    """`many` is right in fold 0 alone, which has 60 rows, and `few` in fold 1, which has 40.

    All rows together would choose `many`. Each fold chooses the one that is wrong in the other fold.
    """
    folds = np.repeat([0, 1], [60, 40])
    many, few = (folded(name, wrong, folds) for name, wrong in (("many", {*range(60, 100)}), ("few", {*range(60)})))
    found = build([many, few], [out_of_fold(folds)] * 2, EnsembleSettings(), SETTINGS).evaluation
    assert found is not None
    assert found.metrics.dev_score.value == found.metrics.test_score.value == 0.0
    assert_array_equal(found.dev.folds, folds)
    assert_array_equal(found.test.folds, folds)
    assert_array_equal(found.test.probabilities, found.dev.probabilities)


def test_a_test_split_is_predicted_by_the_weights_of_all_folds() -> None:
    """As above, but test is a split: all rows choose `many`, which is right on the first 60 rows of test too."""
    folds = np.repeat([0, 1], [60, 40])
    systems = [
        replace(each, test=replace(each.test, folds=None))
        for each in (folded("many", {*range(60, 100)}, folds), folded("few", {*range(60)}, folds))
    ]
    splits = [out_of_fold(folds), replace(out_of_fold(folds), folds=None)]
    found = build(systems, splits, EnsembleSettings(), SETTINGS).evaluation
    assert found is not None
    assert (found.metrics.dev_score.value, found.metrics.test_score.value) == (0.0, pytest.approx(0.6))
    assert found.test.folds is None


def test_the_calibration_of_folds_has_no_error_without_the_temperature(tmp_path: Path) -> None:
    """Each fold has another temperature, and the evaluation knows only that of the final model."""
    found = folded("one", {2}, temperatures=[2.0])
    for calibration in (found.metrics.calibration, found.metrics.seeds[0].calibration):
        assert (calibration.temperature, calibration.ece_uncalibrated) == (2.0, None)
    write_evaluation(tmp_path / "one", found)
    assert read_evaluation(tmp_path / "one").metrics == found.metrics
    page = render(compared(found), {"one": found.metrics}, {}, "")
    assert "calibration error" in page and "uncalibrated" not in page
