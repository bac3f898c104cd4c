"""Bootstrap intervals and significance: coverage, reproducibility, and differences that chance explains."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from epigram.evaluation.comparison.formats import floored
from epigram.evaluation.comparison.significance import holm, mcnemar, paired_bootstrap, verdict, verdicts
from epigram.evaluation.metrics import intervals
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.metrics.multi_label import MultiLabelPredictions
from epigram.evaluation.metrics.primary import metric_of
from epigram.evaluation.metrics.row_scores import RowScores
from epigram.evaluation.records.results import Interval

MACRO_F1 = metric_of("macro_f1", "single", [])


def accuracy_outcomes(correct: np.ndarray) -> RowScores:
    gained = np.atleast_2d(correct).astype(float)
    return RowScores(gained, np.ones_like(gained))


def wilson(right: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    p, shrink = right / n, 1 + z * z / n
    middle, half = (p + z * z / (2 * n)) / shrink, z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / shrink
    return middle - half, middle + half


def interval(correct: np.ndarray, resamples: int = 4000) -> Interval:
    return intervals.score_interval(accuracy_outcomes(correct), resamples=resamples, confidence=0.95)


@pytest.mark.parametrize("right", [500, 830, 940])
def test_accuracy_interval_is_close_to_wilsons(right):
    found = interval(np.arange(1000) < right)
    assert found.value == right / 1000
    assert (found.low, found.high) == pytest.approx(wilson(right, 1000), abs=0.004)


def test_the_same_call_gives_the_same_interval():
    correct = np.arange(300) % 4 > 0
    assert interval(correct) == interval(correct)


def test_identical_seeds_say_no_more_than_one():
    correct = np.arange(300) % 4 > 0
    one, three = interval(correct), interval(np.stack([correct] * 3))
    assert (three.low, three.high) == pytest.approx((one.low, one.high))


def test_a_higher_confidence_gives_a_wider_interval():
    outcomes = accuracy_outcomes(np.arange(200) % 3 > 0)
    narrow, wide = (intervals.score_interval(outcomes, resamples=2000, confidence=c) for c in (0.8, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_memory_is_bounded_without_changing_the_result(monkeypatch):
    rows = np.random.default_rng(0).random((50, 2))
    whole = intervals.bootstrap(rows, lambda sums: sums[:, 0], 100)
    monkeypatch.setattr(intervals, "CHUNK", 500)
    assert intervals.bootstrap(rows, lambda sums: sums[:, 0], 100) == pytest.approx(whole)


@pytest.mark.parametrize("task", ["single", "multi"])
@pytest.mark.parametrize("rare", [0.1, 0.005])
def test_macro_f1_interval_is_that_of_drawing_rows_one_by_one(task, rare):
    generator = np.random.default_rng(3)
    labels = generator.choice(3, 240, p=[0.6, 0.4 - rare, rare])
    gold = np.arange(3) == labels[:, None]
    truth, cuts = (labels, np.zeros((2, 0))) if task == "single" else (gold.astype(np.uint8), np.full((2, 3), 0.95))
    chances = generator.random((2, 240, 3)) + 0.5 * gold
    judged = predict_labels(task, truth, chances, cuts)
    found = intervals.score_interval(MACRO_F1.rows(judged), resamples=4000, confidence=0.95)
    drawn = []
    for _ in range(1500):
        rows = generator.integers(0, 240, 240)
        resample = predict_labels(task, truth[rows], chances[:, rows], cuts)
        drawn.append(np.mean([scores.macro_f1 for scores in resample.scores()]))
    assert found.value == pytest.approx(np.mean([scores.macro_f1 for scores in judged.scores()]))
    assert (found.low, found.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.012)


def test_micro_f1_of_several_labels_has_an_interval():
    generator = np.random.default_rng(4)
    gold = generator.random((150, 4)) < 0.4
    chances = np.clip(0.4 * gold + 0.6 * generator.random((150, 4)), 0, 1)[None]
    judged = predict_labels("multi", gold.astype(np.uint8), chances, np.full((1, 4), 0.5))
    found = intervals.score_interval(metric_of("micro_f1", "multi", []).rows(judged), resamples=500, confidence=0.95)
    assert found.value == pytest.approx(judged.scores()[0].micro_f1)
    assert found.low < found.value < found.high


@pytest.mark.parametrize(("classes", "seeds"), [(2, 1), (3, 2), (7, 3)])
def test_the_classes_of_rows_give_the_interval_of_their_indicators(classes: int, seeds: int) -> None:
    """Rows of one label are counted by class, not by indicators; the resamples, and so the interval, are the same."""
    draw = np.random.default_rng(classes)
    gold = draw.integers(0, classes, 80)
    said = np.where(draw.random((seeds, 80)) < 0.6, gold, draw.integers(0, classes, (seeds, 80)))
    one_hot = np.arange(classes)
    chances = said[..., None] == one_hot
    one = MACRO_F1.rows(predict_labels("single", gold, chances.astype(float), np.zeros((seeds, 0))))
    many = MACRO_F1.rows(MultiLabelPredictions(chances, chances, gold[:, None] == one_hot))
    (first, counts), (place, expected) = (intervals.distinct_rows(each.codes) for each in (one, many))
    np.testing.assert_array_equal(one.columns(first).toarray(), many.columns(place))
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("counts", [[50, 1, 3, 2, 9, 1], [1, 2, 3], [10, 20]], ids=["mixed", "rare", "frequent"])
def test_rare_rows_that_are_drawn_one_by_one_have_the_distribution_of_the_other_draws(counts: list[int]) -> None:
    """Mean and covariance of the counts are those of a multinomial distribution."""
    known = np.array(counts)
    draws = intervals.draw_rare(known, 40_000, np.random.default_rng(0))
    rows, shares = known.sum(), known / known.sum()
    assert (draws.sum(1) == rows).all()
    np.testing.assert_allclose(draws.mean(0), known, rtol=0.02)
    covariance = rows * (np.diag(shares) - np.outer(shares, shares))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03 * covariance.max())


def test_the_interval_of_many_classes_is_that_of_all_multinomial_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    gold = draw.integers(0, 30, 900)
    said = np.where(draw.random(900) < 0.7, gold, draw.integers(0, 30, 900))
    judged = predict_labels("single", gold, np.eye(30)[said][None], np.zeros((1, 0)))
    found = intervals.score_interval(MACRO_F1.rows(judged), resamples=4000, confidence=0.95)
    monkeypatch.setattr(intervals, "draw_rare", intervals.draw_counts)
    wanted = intervals.score_interval(MACRO_F1.rows(judged), resamples=4000, confidence=0.95)
    assert (found.low, found.high) != (wanted.low, wanted.high)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=2e-3)
    assert found.value == wanted.value


def runs(*correct: np.ndarray) -> RowScores:
    gained = np.stack(correct).astype(float)
    return RowScores(gained, np.ones_like(gained))


def random_runs(generator: np.random.Generator, accuracies: list[float], rows: int = 300) -> RowScores:
    return runs(*(generator.random(rows) < accuracy for accuracy in accuracies))


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 5), (0, 6), (12, 3), (30, 31), (250, 180)])
def test_mcnemar_is_the_exact_binomial_test(a, b):
    expected = binomtest(a, a + b, 0.5).pvalue if a + b else 1.0
    assert mcnemar(a, b) == pytest.approx(expected)


def test_mcnemar_bears_many_rows():
    assert mcnemar(20_000, 20_000) == 1.0
    assert mcnemar(20_000, 21_000) < 1e-5


def test_a_system_is_tied_with_itself():
    one = runs(np.arange(200) % 5 > 0)
    assert verdict(one, one, 0.05).outcome == "tie"
    several = random_runs(np.random.default_rng(0), [0.8, 0.82, 0.81])
    assert verdict(several, several, 0.05).outcome == "tie"


def test_a_clear_gap_is_seen_from_both_sides():
    good, bad = np.arange(300) % 10 > 0, np.arange(300) % 10 > 3
    for a, b in ((runs(good), runs(bad)), (runs(good, good, good), runs(bad, bad, bad))):
        assert verdict(a, b, 0.05).outcome == "better"
        assert verdict(b, a, 0.05).outcome == "worse"
        assert verdict(a, b, 0.05).p < 0.01


def test_a_gap_inside_the_noise_is_a_tie():
    rows = np.arange(100)
    assert verdict(runs(rows != 3), runs((rows != 3) & (rows != 4)), 0.05).outcome == "tie"


def test_seeds_that_disagree_make_a_tie():
    """One lucky seed raises the mean by five points; many rows do not make up for few seeds."""
    generator = np.random.default_rng(1)
    lucky = random_runs(generator, [0.80, 0.80, 0.95], rows=4000)
    steady = random_runs(generator, [0.80, 0.80, 0.80], rows=4000)
    assert verdict(lucky, steady, 0.05).outcome == "tie"


def test_systems_may_have_different_numbers_of_seeds():
    generator = np.random.default_rng(2)
    assert verdict(random_runs(generator, [0.9] * 5), random_runs(generator, [0.6]), 0.05).outcome == "better"


def test_equal_systems_rarely_differ():
    generator = np.random.default_rng(3)
    pairs = [(random_runs(generator, [0.8] * 5, 150), random_runs(generator, [0.8] * 5, 150)) for _ in range(120)]
    assert np.mean([paired_bootstrap(a, b, resamples=400) < 0.05 for a, b in pairs]) < 0.1


def test_the_p_value_of_one_row_is_twice_the_chance_of_not_drawing_it():
    """In a resample of 100 rows, the only row in which the systems differ is absent with probability 0.99^100."""
    rows = np.arange(100)
    found = paired_bootstrap(runs(rows != 3), runs((rows != 3) & (rows != 4)), resamples=20_000)
    assert found == pytest.approx(2 * 0.99**100, abs=0.02)


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])


def test_more_rivals_need_more_evidence():
    rows = np.arange(100)
    best, rival = runs(rows >= 0), runs(rows >= 6)
    alone = verdicts(best, {"rival": rival}, 0.05)["rival"]
    among = verdicts(best, {"rival": rival, **{str(i): rival for i in range(4)}}, 0.05)["rival"]
    assert (alone.outcome, among.outcome) == ("worse", "tie")
    assert among.p == pytest.approx(5 * alone.p)


def test_no_rival_no_verdict():
    assert verdicts(runs(np.ones(5)), {}, 0.05) == {}


def test_micro_f1_of_single_runs_uses_the_bootstrap():
    hits = np.tile([2.0, 0.0, 2.0, 2.0], 100)[None]
    full = RowScores(np.full((1, 400), 2.0), np.full((1, 400), 2.0))
    assert verdict(full, RowScores(hits, np.full((1, 400), 2.0)), 0.05).outcome == "better"


@pytest.mark.parametrize(
    ("value", "text"), [(0.99998, "0.9999"), (1.0, "1.0000"), (0.5, "0.5000"), (0.12349, "0.1234")]
)
def test_a_minimum_is_never_rounded_up(value: float, text: str) -> None:
    assert floored(value) == text
