"""Tests of the limit of the time of systems: when a run is stopped, and which systems are left out."""

from __future__ import annotations

import threading
import time
from typing import Any

from epigram.process.outcome import Outcome
from epigram.runner.prefect.time_limit import TimeLimit, unfinished

SYSTEMS = {name: {f"fit@{name}", f"judge@{name}"} for name in ("svm", "hybrid", "bert")}


def outcomes(**codes: int) -> dict[str, Outcome]:
    """Return the outcomes of stages, by exit code; fit_svm stands for fit@svm."""
    names = {name.replace("_", "@"): code for name, code in codes.items()}
    return {name: Outcome(stage=name, code=code) for name, code in names.items()}


class Stages:
    """Runner whose stages have the given outcomes; `stop` is noted."""

    def __init__(self, **codes: int) -> None:
        self.outcomes, self.stopped = outcomes(**codes), threading.Event()

    def stop(self) -> None:
        self.stopped.set()


def limited(runner: Any, seconds: float) -> TimeLimit:
    return TimeLimit(time.monotonic() + seconds, SYSTEMS, runner)


def test_a_system_is_finished_with_all_of_its_stages() -> None:
    done = outcomes(fit_svm=0, judge_svm=0, fit_hybrid=0, fit_bert=0, judge_bert=75)
    assert unfinished(SYSTEMS, done) == ["hybrid", "bert"]
    assert unfinished(SYSTEMS, {}) == ["svm", "hybrid", "bert"]


def test_the_run_is_stopped_at_its_time_and_not_before() -> None:
    runner = Stages(fit_svm=0, judge_svm=0, fit_hybrid=0)
    limit = limited(runner, 0.5)
    with limit.watch():
        assert not runner.stopped.wait(0.3)
        assert runner.stopped.wait(5.0)
    assert limit.left_out == ["hybrid", "bert"]


def test_the_first_system_is_waited_for() -> None:
    runner = Stages(fit_svm=0, fit_bert=0, judge_bert=0)
    limit = limited(runner, 0.0)
    with limit.watch():
        assert not runner.stopped.wait(0.6)
        runner.outcomes |= outcomes(judge_svm=0)
        assert runner.stopped.wait(5.0)
    assert limit.left_out == ["hybrid"]


def test_a_run_whose_systems_are_finished_goes_on() -> None:
    runner = Stages(**{f"{stage}_{name}": 0 for name in SYSTEMS for stage in ("fit", "judge")})
    limit = limited(runner, 0.0)
    with limit.watch():
        assert not runner.stopped.wait(0.6)
    assert limit.left_out == []


def test_a_run_that_ends_early_is_not_waited_for() -> None:
    runner, before = Stages(), time.monotonic()
    with limited(runner, 60.0).watch():
        pass
    assert time.monotonic() - before < 5 and not runner.stopped.is_set()
