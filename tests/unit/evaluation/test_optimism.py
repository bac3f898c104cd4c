"""Out-of-fold predictions, their scores, and the optimism of the best of several scores."""

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
from epigram.evaluation.comparison.optimism import expected_optimism
from epigram.evaluation.comparison.scored_system import scored_system
from epigram.evaluation.ensemble.build_ensemble import build
from epigram.evaluation.evaluate_system import evaluate_system
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.intervals import fold_spread
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.metrics.row_scores import RowScores
from epigram.evaluation.quality.examine_train import shares_of
from epigram.evaluation.quality.out_of_fold import predict_out_of_fold, stratified_order, text_features
from epigram.evaluation.records.results import Cost, Evaluated, read_evaluation, write_evaluation
from epigram.evaluation.records.summary import Corpus, Summary
from epigram.evaluation.settings import EnsembleSettings, Preference
from epigram.evaluation.splits import GoldSplit, SystemOutput, Target
from epigram.evaluation.tuning.thresholds import tuned_thresholds
from epigram.report.columns import comparison_markdown
from epigram.report.page import render
from epigram.report.terminal import comparison_table
from tests.support.evaluation_samples import SETTINGS, corpus, cost, probabilities, split


def scores(*rows: list[int]) -> RowScores:
    """Return the scores of a system; one list of right (1) and wrong (0) rows for each seed."""
    gained = np.array(rows, float)
    return RowScores(gained, np.ones_like(gained))


def test_two_systems_that_are_right_on_one_row_each() -> None:
    """Of the 4 resamples of 2 rows, 2 repeat a row: the system right on it has 1 instead of 0.5."""
    found = expected_optimism([scores([1, 0]), scores([0, 1])], resamples=20_000)
    assert found == pytest.approx(0.25, abs=0.01)


def test_a_real_lead_is_no_optimism() -> None:
    """The first system is right on every row: it is best on every resample, with the score that it has on all rows."""
    assert expected_optimism([scores([1, 1, 1, 1]), scores([1, 0, 1, 0])]) == 0


def test_the_best_of_many_equal_systems_is_more_optimistic_than_that_of_two() -> None:
    generator = np.random.default_rng(0)
    systems = [scores(list(generator.integers(0, 2, 84))) for _ in range(40)]
    two, forty = expected_optimism(systems[:2]), expected_optimism(systems)
    assert 0 < two < 0.05 < forty < 0.15


def test_the_seeds_of_a_system_are_averaged() -> None:
    """Each system has one right seed and one wrong seed on every row: its mean is 0.5 on every resample."""
    assert expected_optimism([scores([1, 1], [0, 0]), scores([0, 0], [1, 1])]) == 0


def test_one_system_is_not_chosen_from_many() -> None:
    assert expected_optimism([scores([1, 0, 0])]) == 0


def test_a_system_that_is_chosen_whatever_its_score_has_no_optimism() -> None:
    """The second system is best on a resample that repeats its row; if it is replaced, the first one has 0 there."""
    systems = [scores([1, 0]), scores([0, 1])]
    assert expected_optimism(systems, 0, [1], resamples=20_000) == pytest.approx(0, abs=0.01)
    assert expected_optimism(systems, 0, [], resamples=20_000) == pytest.approx(0.25, abs=0.01)


def test_the_optimism_is_not_negative() -> None:
    assert min(expected_optimism([scores([1, 0, 0, 1, 0])] * 2, 0, [1], resamples=n) for n in range(1, 9)) == 0


WORDS = ["coin", "canvas", "goal"]


def texts(count: int) -> tuple[list[str], np.ndarray]:
    """Return texts whose label is that of one of their words."""
    draw, labels = np.random.default_rng(0), np.arange(count) % 3
    fillers = draw.choice(["some", "more", "words", "again", "today"], (count, 4))
    return [f"{' '.join(line)} {WORDS[label]}" for line, label in zip(fillers, labels, strict=True)], labels


def test_a_word_that_decides_the_label_is_learned() -> None:
    lines, labels = texts(300)
    found = predict_out_of_fold(
        text_features(lines, "en", 3), labels, np.arange(300) // 3 % 5, [0.1, 0.5, 1.0], classes=3
    )
    assert found.sizes.tolist() == [24, 120, 240]
    assert found.probabilities.sum(1) == pytest.approx(np.ones(300))
    assert (found.probabilities.argmax(1) == labels).mean() > 0.99
    assert (found.wrong[-1] == (found.probabilities.argmax(1) != labels)).all()
    assert found.wrong[0].mean() >= found.wrong[-1].mean()


def test_no_row_is_predicted_by_a_model_that_has_seen_it() -> None:
    """Each text has only a word of its own, and its label is random: a model knows it only if it has seen the text."""
    draw = np.random.default_rng(3)
    labels, folds = draw.integers(0, 2, 400), draw.integers(0, 5, 400)
    features = text_features([f"own{row}" for row in range(400)], "en", 2)
    found = predict_out_of_fold(features, labels, folds, [1.0], classes=2)
    assert 0.4 < found.wrong.mean() < 0.6


def test_equal_texts_of_two_folds_would_be_seen() -> None:
    """The test above can fail: with the same text in another fold, the label is known."""
    labels = np.repeat(np.random.default_rng(3).integers(0, 2, 200), 2)
    features = text_features([f"own{row // 2}" for row in range(400)], "en", 2)
    apart = predict_out_of_fold(features, labels, np.arange(400) % 2, [1.0], classes=2)
    together = predict_out_of_fold(features, labels, np.arange(400) // 2 % 2, [1.0], classes=2)
    assert apart.wrong.mean() < 0.1 and together.wrong.mean() > 0.3


def test_a_label_that_a_training_lacks_is_the_least_probable() -> None:
    lines, labels = texts(60)
    labels = np.where(np.arange(60) < 6, 3, labels)
    folds = np.where(labels == 3, 0, 1 + np.arange(60) % 2)
    found = predict_out_of_fold(text_features(lines, "en", 4), labels, folds, [1.0], classes=4)
    lacking = found.probabilities[labels == 3]
    assert (lacking.argmin(1) == 3).all() and (lacking[:, 3] < 0.02).all()
    assert found.probabilities.sum(1) == pytest.approx(np.ones(60))


def test_each_beginning_of_the_order_is_stratified_and_has_every_label() -> None:
    labels = np.repeat([0, 1, 2], [80, 18, 2])
    order = stratified_order(labels, np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(100))
    assert sorted(labels[order[:3]].tolist()) == [0, 1, 2]
    assert np.bincount(labels[order[:50]]).tolist() == [40, 9, 1]
    assert order.tolist() != stratified_order(labels, np.random.default_rng(1)).tolist()
    assert order.tolist() == stratified_order(labels, np.random.default_rng(0)).tolist()


@pytest.mark.parametrize(
    ("rows", "labels", "shares"),
    [
        (10_000, 3, [1 / 16, 1 / 8, 1 / 4, 0.35, 1 / 2, 0.7, 1.0]),
        (1_000, 100, [1 / 4, 0.35, 1 / 2, 0.7, 1.0]),  # a quarter of 800 training rows
        (1_000, 101, [0.35, 1 / 2, 0.7, 1.0]),
        (30, 2, [1 / 2, 0.7, 1.0]),  # at least ten rows
    ],
)
def test_a_share_has_two_rows_for_each_label(rows: int, labels: int, shares: list[float]) -> None:
    assert shares_of(rows, labels) == shares


def test_chinese_texts_are_compared_by_characters() -> None:
    same, other = text_features(["饭很好吃", "饭真好吃"], "zh", 2).toarray()
    assert 0.2 < same @ other < 0.9


def test_the_probabilities_are_as_good_as_they_say() -> None:
    """A word decides the label of two texts in three; the label of the others is random."""
    draw = np.random.default_rng(1)
    lines, labels = texts(3_000)
    guessed = draw.random(3_000) < 1 / 3
    labels = np.where(guessed, draw.integers(0, 3, 3_000), labels)
    lines = [line.rsplit(" ", 1)[0] if hidden else line for line, hidden in zip(lines, guessed, strict=True)]
    found = predict_out_of_fold(text_features(lines, "en", 3), labels, np.arange(3_000) % 5, [1.0], classes=3)
    confidence = found.probabilities.max(1)
    assert confidence.mean() == pytest.approx(1 - found.wrong.mean(), abs=0.03)


def test_a_share_of_sorted_rows_has_every_label() -> None:
    lines, labels = texts(300)
    order = np.argsort(labels, kind="stable")
    features = text_features([lines[row] for row in order], "en", 3)
    found = predict_out_of_fold(features, labels[order], np.arange(300) % 5, [0.1, 1.0], classes=3)
    assert found.wrong[0].mean() < 0.3


def test_two_labels_have_two_probabilities() -> None:
    lines, labels = texts(120)
    found = predict_out_of_fold(text_features(lines, "en", 2), labels % 2, np.arange(120) // 6 % 5, [1.0], classes=2)
    assert found.probabilities.shape == (120, 2)
    assert (found.wrong[0] == (found.probabilities.argmax(1) != labels % 2)).all()


def test_many_labels_leave_fewer_features() -> None:
    lines = [f"word{row} other{row}" for row in range(300)]
    assert text_features(lines, "en", 2).shape[1] == 900
    assert text_features(lines, "en", 1 << 14).shape[1] == 256


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
        Target(task="single", labels=["neg", "pos"], metric=metric_of("auto", "single", [])),
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
        Target(task="multi", labels=["neg", "pos"], metric=metric_of("auto", "multi", [])),
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
