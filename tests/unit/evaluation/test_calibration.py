"""Tests of calibration metrics on predictions with known calibration."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.metrics import brier_score_loss

from epigram.evaluation.arrays import Bools, Floats
from epigram.evaluation.metrics import calibration
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.evaluation.tuning.temperature import LOG_TEMPERATURE, fit_temperature

single_temperature, multi_temperature = (partial(fit_temperature, multi=multi) for multi in (False, True))


def drawn(rows: int, classes: int, sharpness: float, seed: int = 0) -> tuple[Floats, Bools]:
    """Return probabilities with `sharpness` times the true logits, and one-hot labels drawn from the true ones."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 1.5, (rows, classes))
    true = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (true.cumsum(1) < generator.random((rows, 1))).sum(1)
    said = np.exp(logits * sharpness) / np.exp(logits * sharpness).sum(1, keepdims=True)
    return said, np.arange(classes) == labels[:, None]


def single(probabilities: Floats, gold: Bools) -> SplitPredictions:
    return predict_labels("single", gold.argmax(1), probabilities[None], np.zeros((1, 0)))


def several(probabilities: Floats, gold: Bools) -> SplitPredictions:
    return predict_labels("multi", gold, probabilities[None], np.full((1, gold.shape[1]), 0.5))


def at_temperature(predictions: SplitPredictions, temperature: float) -> Floats:
    return predictions.at_temperature(temperature).probabilities[0]


def ece(probabilities: Floats, gold: Bools) -> float:
    bins = calibration.reliability(*single(probabilities, gold).confidences(), bins=10)
    return calibration.expected_calibration_error(bins)


def test_by_hand():
    confidence, outcome = np.array([0.95, 0.85, 0.55, 0.6]), np.array([True, False, True, False])
    bins = calibration.reliability(confidence, outcome, 10)
    assert [bin.count for bin in bins] == [2, 1, 1]
    assert bins[0].confidence == pytest.approx(0.575)
    assert bins[0].accuracy == 0.5
    assert calibration.expected_calibration_error(bins) == pytest.approx((2 * 0.075 + 0.85 + 0.05) / 4)


def test_full_confidence_falls_into_the_last_bin():
    assert calibration.reliability(np.array([1.0, 0.0]), np.array([True, False]), 5)[-1].count == 1


def test_true_probabilities_have_nearly_no_error():
    assert ece(*drawn(20_000, 4, 1.0)) < 0.015


def test_temperature_undoes_overconfidence():
    dev, dev_gold = drawn(4000, 4, 2.0, seed=1)
    test, gold = drawn(4000, 4, 2.0, seed=2)
    temperature = single_temperature(np.log(dev), dev_gold)
    assert temperature == pytest.approx(2.0, rel=0.08)
    calibrated = at_temperature(single(test, gold), temperature)
    found = calibration.calibrate(single(calibrated, gold), temperature, bins=10)
    assert found.ece_uncalibrated == pytest.approx(ece(test, gold))
    assert found.ece_uncalibrated > 0.08
    assert found.ece == ece(calibrated, gold) < 0.03
    assert (found.temperature, found.brier) == (temperature, single(calibrated, gold).brier())


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_the_temperature_is_the_minimum_of_the_smoothed_cross_entropy(classes: int) -> None:
    """The targets of Platt for N rows: 1 − 1 / (N + 2) for the gold label, the rest in equal shares for the others."""
    generator = np.random.default_rng(3)
    logits, labels = generator.normal(0, 4, (9, classes)), generator.integers(0, classes, 9)
    logits[np.arange(9), labels] += 12.0  # nearly all rows are right: the smoothing decides
    gold = np.arange(classes) == labels[:, None]
    rest = 1 / 11
    targets = np.where(gold, 1 - rest, rest / (classes - 1))
    grid = np.exp(np.linspace(*LOG_TEMPERATURE, 20_001))
    losses = [-(targets * log_softmax(logits / each, axis=1)).sum() for each in grid]
    assert single_temperature(logits, gold) == pytest.approx(grid[np.argmin(losses)], rel=1e-3)


def test_temperature_leaves_the_prediction_alone():
    probabilities, gold = drawn(200, 5, 1.0)
    softer = at_temperature(single(probabilities, gold), 3.0)
    assert np.array_equal(softer.argmax(1), probabilities.argmax(1))
    assert softer.sum(1) == pytest.approx(np.ones(200))


def test_probabilities_of_zero_and_one_are_borne():
    sure, gold = np.eye(3)[[0, 1, 2, 0]], np.eye(3, dtype=bool)[[0, 1, 2, 1]]
    found = calibration.calibrate(single(sure, gold), 3.0, bins=10)
    assert np.isfinite([found.ece, found.ece_uncalibrated, found.brier]).all()


@pytest.mark.parametrize(("classes", "probability"), [(2, 11 / 12), (3, 11 / 12)])
def test_ten_rows_that_are_all_right_give_the_probability_of_the_rule_of_succession(classes, probability):
    """The smoothed target is 1 − 1/12; without smoothing, the temperature would be at its lower bound."""
    logits = np.tile([2.0, *[0.0] * (classes - 1)], (10, 1))
    temperature = single_temperature(logits, np.tile(np.arange(classes) == 0, (10, 1)))
    assert softmax(logits / temperature, axis=1)[0, 0] == pytest.approx(probability, abs=1e-4)


def test_two_labels_that_are_always_right_have_the_same_target_each():
    logits, gold = np.tile([2.0, -2.0], (10, 1)), np.tile([True, False], (10, 1))
    assert expit(2.0 / multi_temperature(logits, gold)) == pytest.approx(11 / 12, abs=1e-4)


def test_many_rows_whose_mistakes_are_evenly_spaced_give_the_temperature_of_all():
    """Three of four rows are right, all of those with an even number: the probability is 3/4, so T is 2 / ln 3."""
    right = np.arange(20_004) % 4 != 1
    logits, gold = np.tile([2.0, 0.0], (len(right), 1)), np.stack([right, ~right], axis=1)
    assert single_temperature(logits, gold) == pytest.approx(2 / np.log(3), rel=2e-3)


def test_a_development_set_of_confident_mistakes_raises_the_temperature_to_its_bound():
    logits, gold = np.tile([2.0, 0.0], (50, 1)), np.tile([False, True], (50, 1))
    assert single_temperature(logits, gold) == pytest.approx(np.exp(5.0), rel=1e-3)


@pytest.mark.parametrize("logits", [np.zeros((9, 2)), np.full((9, 2), np.nan)], ids=["equal", "not finite"])
def test_logits_that_no_temperature_improves_keep_theirs(logits):
    assert single_temperature(logits, np.tile([True, False], (9, 1))) == 1.0


def test_one_class_needs_no_temperature():
    assert single_temperature(np.ones((4, 1)), np.ones((4, 1), bool)) == 1.0


def test_the_probability_1_of_a_label_is_less_sure_at_a_high_temperature():
    """The probability 1 counts as 1 − 10⁻¹²; its odds 10¹² become their root, 10⁶, at the temperature 2."""
    scaled = at_temperature(several(np.array([[1.0]]), np.ones((1, 1), bool)), 2.0)
    assert 1.0 - scaled.item() == pytest.approx(1e-6, rel=1e-3)


def test_brier_of_two_labels_is_twice_scikit_learns():
    probabilities, gold = drawn(500, 2, 1.0)
    expected = 2 * brier_score_loss(gold[:, 1], probabilities[:, 1])
    assert single(probabilities, gold).brier() == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
def test_the_smallest_temperature_makes_sure_probabilities_of_several_labels_without_a_warning():
    sure = several(np.array([[1e-9, 0.3, 0.8]]), np.zeros((1, 3), bool))
    sharp = at_temperature(sure, float(np.exp(LOG_TEMPERATURE[0])))
    assert sharp == pytest.approx(np.array([[0.0, 0.0, 1.0]]), abs=1e-6)


def test_several_labels_are_judged_one_by_one():
    generator = np.random.default_rng(5)
    true = generator.random((5000, 3))
    gold = generator.random((5000, 3)) < true
    logits = 2 * np.log(true / (1 - true))
    temperature = multi_temperature(logits, gold)
    assert temperature == pytest.approx(2.0, rel=0.08)
    found = calibration.calibrate(several(expit(logits / temperature), gold), temperature, 10)
    assert found.ece < 0.02 < found.ece_uncalibrated


def test_of_many_rows_some_decide() -> None:
    """Logits that are three times too large, in an order in which neighbours have different labels."""
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(50_000, 3))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    said = (shares.cumsum(1) > draw.random((50_000, 1))).argmax(1)
    assert single_temperature(3 * logits, said[:, None] == np.arange(3)) == pytest.approx(3.0, abs=0.1)
