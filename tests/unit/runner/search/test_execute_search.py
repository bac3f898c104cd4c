"""Tests of the request that the flow of a search gets, and of what is refused before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.objects import State
from prefect.states import Failed

from epigram.core.errors import ParameterError
from epigram.process.exits import exit_code
from epigram.process.outcome import Outcome
from epigram.runner.prefect.pipeline_run import RunFailedError
from epigram.runner.runs.publish import Run
from epigram.runner.search import execute
from epigram.runner.service.server import Server
from epigram.runner.workspace.request import Request
from epigram.workflow.search.goal import Goal
from epigram.workflow.search.plan import RunPlan

GOAL = Goal(seconds=60)
PLAN = RunPlan(dataset="mine", seeds=[0], views={}, systems={"tfidf_svm": {"view": "token"}})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Let a search return its own request with a plan; the value has the requests of all searches."""
    requests: list[Request] = []

    def flow(request: Request, *_: Any, **__: Any) -> Request:
        requests.append(request)
        return replace(request, plan=PLAN)

    monkeypatch.setattr(execute, "start_server", lambda *_, **__: (None, flow))
    monkeypatch.setattr(execute, "run_flow", lambda _, call: call())
    return requests


def test_a_search_runs_here_without_a_name_and_its_run_as_asked(tmp_path: Path, asked: list[Request]) -> None:
    request = Request(root=tmp_path, dataset="mine", name="best", ray="local")
    found = execute.execute_search(request, GOAL, 0.0, lambda: None)
    assert asked == [replace(request, name=None, ray=None)]
    assert found == replace(request, plan=PLAN)


def test_a_name_that_a_link_refers_to_is_refused_before_the_search(tmp_path: Path, asked: list[Request]) -> None:
    (tmp_path / "runs" / "best").mkdir(parents=True)
    (tmp_path / "runs" / "latest").symlink_to("best")
    with pytest.raises(ParameterError, match="runs/latest refers to the run of that name"):
        execute.execute_search(Request(root=tmp_path, name="best"), GOAL, 0.0, lambda: None)
    assert asked == []


def test_an_invalid_cluster_is_refused_before_the_search(tmp_path: Path, asked: list[Request]) -> None:
    with pytest.raises(ParameterError, match="invalid --ray"):
        execute.execute_search(Request(root=tmp_path, ray="nowhere"), GOAL, 0.0, lambda: None)
    assert asked == []


@pytest.mark.parametrize("code", [65, 69])
def test_a_stage_that_fails_in_a_search_gives_the_command_its_exit_code(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Outcome.failed("validate", code, "no good")
    run = Run(name="x", dataset="mine", revision="unknown", wall_seconds=1.0, stages={}, failure=failure)
    state: State[Run] = Failed(message="validate: no good", data=RunFailedError(run, failure))
    api = Server("http://127.0.0.1:9")
    monkeypatch.setattr(execute, "start_server", lambda *_, **__: (api, lambda *_, **__: state))
    with pytest.raises(RunFailedError, match=rf"^validate failed \(exit {code}\): no good$") as raised:
        execute.execute_search(Request(root=tmp_path, dataset="mine"), GOAL, 0.0, lambda: None)
    assert exit_code(raised.value) == code
