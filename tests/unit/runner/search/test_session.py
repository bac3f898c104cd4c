"""A search in progress: a trial that fails, and the project's settings in trials and in the plan."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from epigram.core.errors import EpigramError
from epigram.runner.search.goal import Goal, Stopwatch
from epigram.runner.search.halving import Ask, Failed
from epigram.runner.search.plan import Plan
from epigram.runner.search.session import SearchSession
from epigram.runner.workspace.request import Request
from epigram.training.trials.spec import TrialResult, TrialSpec

ASK = Ask(TrialSpec(name="fine_tuned", system={"view": "token", "recipe": "textcnn"}, rows=500), 10.0)
PLAN = Plan(dataset="mr", seeds=[0], views={}, systems={"tfidf_svm": {"view": "token"}}, compare={"prefer": "best"})


def session(folder: Path, trials: Any = None, **params: Any) -> SearchSession:
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    run: Any = SimpleNamespace(workspace=SimpleNamespace(path=folder), results=dict)
    return SearchSession(Request(root=folder), Goal(seconds=600), Stopwatch(600, time.monotonic()), run, trials)


def test_a_trial_that_fails_is_no_end_of_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(spec: TrialSpec, seconds: float) -> TrialResult:
        raise EpigramError("trial of fine_tuned on 500 rows failed: loss is NaN")

    answer = session(tmp_path, SimpleNamespace(run=fail)).answer(ASK)
    assert isinstance(answer, Failed) and "loss is NaN" in str(answer.error)
    assert capsys.readouterr().err == "note: trial of fine_tuned on 500 rows failed: loss is NaN\n"


def test_a_trial_that_ends_has_its_result(tmp_path: Path) -> None:
    found = TrialResult(score=0.5, loss=1.0, rows=500, seconds=1.0, ms_per_text=1.0)
    assert session(tmp_path, SimpleNamespace(run=lambda spec, seconds: found)).answer(ASK) == found


def test_the_plan_keeps_the_keys_that_the_search_does_not_set(tmp_path: Path) -> None:
    own = {"compare": {"alpha": 0.01, "prefer": "cheapest"}, "examine": {"similarity": 0.95}}
    plan = session(tmp_path, **own).planned(PLAN).plan
    assert plan["compare"] == {"alpha": 0.01, "prefer": "best"}
    assert "examine" not in plan  # the project's own section counts


def test_a_limited_examination_keeps_the_project_s_similarity(tmp_path: Path) -> None:
    limited = Plan(**{**vars(PLAN), "examine": {"rows": 700}})
    plan = session(tmp_path, examine={"rows": 1_000, "similarity": 0.95}).planned(limited).plan
    assert plan["examine"] == {"rows": 700, "similarity": 0.95}
