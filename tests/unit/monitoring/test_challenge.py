"""Tests of promotion: the challenger must be significantly better, and no class may lose more than the margin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.metrics.scoring import SplitPredictions
from epigram.monitoring.challenge import Promotion, decide

LABELS = ["a", "b", "c"]
ACCURACY, MICRO_F1 = (metric_of("auto", task, LABELS) for task in ("single", "multi"))
GOLD = np.repeat([0, 1, 2], [100, 80, 20])


def said(right: list[float], seed: int) -> SplitPredictions:
    """Return predictions with these recalls by class; a wrong prediction is the next class."""
    drawn = np.random.default_rng(seed).random(len(GOLD))
    answers = np.where(drawn < np.array(right)[GOLD], GOLD, (GOLD + 1) % 3)
    return predict_labels("single", GOLD, np.eye(3)[answers][None], np.zeros((1, 0)))


def decision(challenger: list[float], champion: list[float], **bar: Any) -> Promotion:
    asked: dict[str, Any] = {"alpha": 0.05, "margin": 0.05} | bar
    return decide(said(challenger, 1), said(champion, 2), LABELS, metric=ACCURACY, names=("new", "old"), **asked)


def test_a_better_model_is_promoted() -> None:
    found = decision([0.95, 0.95, 0.95], [0.6, 0.6, 0.6])
    assert found.promoted and found.reason.startswith("better: new 9")
    assert ", 200 development texts, p < 0.001" in found.reason


def test_a_worse_model_is_refused() -> None:
    found = decision([0.5, 0.5, 0.5], [0.9, 0.9, 0.9])
    assert not found.promoted and found.reason.startswith("worse: ")


def test_a_difference_that_may_be_chance_is_refused() -> None:
    found = decision([0.9, 0.9, 0.9], [0.88, 0.88, 0.88])
    assert not found.promoted and found.reason.startswith("not significantly better: ")


def test_a_tie_is_promoted_if_a_challenger_need_only_not_be_worse() -> None:
    found = decision([0.9, 0.9, 0.9], [0.88, 0.88, 0.88], promote="not_worse")
    assert found.promoted and found.reason.startswith("not worse: new 9")
    worse, unfair = [0.5, 0.5, 0.5], [0.97, 0.97, 0.1]
    assert not decision(worse, [0.9, 0.9, 0.9], promote="not_worse").promoted
    assert not decision(unfair, [0.93, 0.93, 0.9], promote="not_worse").promoted


def of_few(right: list[int], *, texts: int) -> SplitPredictions:
    """Return predictions of `texts` texts of class a, of which those with the numbers `right` are right."""
    answers = np.ones(texts, np.int64)
    answers[right] = 0
    return predict_labels("single", np.zeros(texts, np.int64), np.eye(3)[answers][None], np.zeros((1, 0)))


@pytest.mark.parametrize(
    ("challenger", "champion", "texts", "needed"),
    [  # 6 wins and no loss are the fewest texts with p < 0.05 (0.03125)
        ([0, 1, 2, 3, 4], [0, 1, 5, 6], 14, "42.9 points would be significant; 7.1 points need about 300 texts"),
        ([0, 1], [2, 3], 14, "with 14 texts, a difference of about 42.9 points would be significant"),
        ([0, 1, 2], [], 5, "with 5 texts, no difference is significant; 60.0 points need about 10 texts"),
    ],
)
def test_a_refusal_says_what_would_be_significant(
    challenger: list[int], champion: list[int], texts: int, needed: str
) -> None:
    sides = of_few(challenger, texts=texts), of_few(champion, texts=texts)
    found = decide(*sides, LABELS, metric=ACCURACY, names=("new", "old"), alpha=0.05, margin=0.05)
    advice = "; retrain.promote: not_worse would accept it"
    assert not found.promoted and found.reason.endswith(needed + advice)


def test_a_class_that_pays_for_the_others_is_refused() -> None:
    found = decision([0.97, 0.97, 0.1], [0.6, 0.6, 0.95])
    assert not found.promoted and found.reason.startswith("F1 of class 'c' (20 texts) drops from ")
    assert "margin 5.0" in found.reason
    assert decision([0.97, 0.97, 0.1], [0.6, 0.6, 0.95], margin=1.0).promoted


def test_a_class_that_is_not_in_the_development_set_cannot_be_judged() -> None:
    gold = np.zeros(50, np.int64)
    new, old = (
        predict_labels("single", gold, np.eye(3)[answers][None], np.zeros((1, 0))) for answers in (gold, gold + 1)
    )
    found = decide(new, old, LABELS, metric=ACCURACY, names=("new", "old"), alpha=0.05, margin=0.05)
    assert found.promoted and [change.label for change in found.classes] == ["a"]


def test_several_labels_a_text() -> None:
    gold = np.random.default_rng(0).integers(0, 2, (200, 3))
    noisy = np.where(np.random.default_rng(1).random((200, 3)) < 0.3, 1 - gold, gold)
    cuts = np.full((1, 3), 0.5)
    new, old = (predict_labels("multi", gold, answers[None].astype(float), cuts) for answers in (gold, noisy))
    found = decide(new, old, LABELS, metric=MICRO_F1, names=("new", "old"), alpha=0.05, margin=0.05)
    assert found.promoted and found.p is not None and found.p < 0.05


def with_f1(c_right: int, b_right: int) -> SplitPredictions:
    """Return predictions for 100 texts of a, 100 of b and 50 of c in which the F1 of c is `c_right` / 50."""
    gold = np.repeat([0, 1, 2], [100, 100, 50])
    answers = gold.copy()
    answers[200 : 250 - c_right] = 0
    answers[: 50 - c_right] = 2
    answers[100 : 200 - b_right] = 0
    return predict_labels("single", gold, np.eye(3)[answers][None], np.zeros((1, 0)))


def test_a_class_may_lose_exactly_the_margin() -> None:
    new, old = with_f1(30, 100), with_f1(31, 0)  # c falls from 0.62 to 0.60; 0.62 - 0.60 is above 0.02 as floats
    bar = {"metric": ACCURACY, "names": ("new", "old"), "alpha": 0.05}
    assert 0.62 - 0.60 > 0.02
    assert decide(new, old, LABELS, margin=0.02, **bar).promoted
    refused = decide(new, old, LABELS, margin=0.019, **bar)
    assert not refused.promoted and "class 'c' (50 texts) drops from 62.0 to 60.0, margin 1.9" in refused.reason


def test_a_class_that_other_texts_are_taken_for_loses_f1_though_all_of_its_texts_are_right() -> None:
    """c has 10 texts, all right in both models; the challenger labels 10 texts of a as c: F1 falls from 1 to 2/3."""
    gold = np.repeat([0, 1, 2], [100, 100, 10])
    new, old = gold.copy(), gold.copy()
    new[:10] = 2
    old[100:200] = 0
    first, second = (
        predict_labels("single", gold, np.eye(3)[answers][None], np.zeros((1, 0))) for answers in (new, old)
    )
    found = decide(first, second, LABELS, metric=ACCURACY, names=("new", "old"), alpha=0.05, margin=0.05)
    assert not found.promoted and "F1 of class 'c' (10 texts) drops from 100.0 to 66.7" in found.reason
