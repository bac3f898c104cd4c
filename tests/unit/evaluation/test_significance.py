"""Tests of significance: a difference counts only if chance does not explain it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from epigram.evaluation.comparison.significance import holm, mcnemar, paired_bootstrap, verdict, verdicts
from epigram.evaluation.metrics.scoring import RowScores


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
