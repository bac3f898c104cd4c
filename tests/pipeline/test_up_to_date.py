"""A run with nothing to do: without a Prefect server none is started, and with one the run is recorded there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from epigram.core.errors import TryAgainError
from epigram.core.files import exclusive_lock
from epigram.runner.prefect import execution
from epigram.runner.service.server import Server
from epigram.runner.workspace.request import Request
from tests.support.toy import Toy


class StartedError(Exception):
    """Raised where a server would start."""


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no server run, and raise StartedError where a run would start or use one."""

    def start(*_: Any) -> NoReturn:
        raise StartedError

    monkeypatch.setattr(execution.server, "running", lambda: None)
    monkeypatch.setattr(execution, "start_server", start)


def execute(toy: Toy, **wanted: Any) -> Any:
    return execution.execute(Request(root=toy.root, **wanted), load=lambda: None)


def summary(toy: Toy, name: str) -> Any:
    return json.loads((toy.root / "runs" / name / "summary.json").read_text())


def test_nothing_to_do_needs_no_server_and_is_written_to_runs(done: Toy, capfd: pytest.CaptureFixture[str]) -> None:
    run = execute(done, name="again")
    assert (run.executed, run.code, done.journal()) == (0, 0, [])
    assert {stage.state for stage in run.stages.values()} == {"Cached"}
    assert summary(done, "again")["stages"]["judge"] == {"state": "Cached", "seconds": 0.0}
    assert (done.root / "runs" / "latest").readlink() == Path("again")
    assert capfd.readouterr().err.count(" Cached 0.0\n") == 6
    assert list((done.root / ".epigram" / "names").iterdir()) == []


def test_nothing_to_do_is_recorded_by_a_server_that_runs(done: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution.server, "running", lambda: Server("http://127.0.0.1:4200"))
    with pytest.raises(StartedError):
        execute(done)


def test_one_changed_stage_needs_a_server(done: Toy) -> None:
    done.change("judge")
    with pytest.raises(StartedError):
        execute(done, name="again")
    assert not (done.root / "runs" / "again").exists()


def test_a_deleted_output_needs_a_server(done: Toy) -> None:
    (done.root / "out" / "fit" / "mlp" / "result.txt").unlink()
    with pytest.raises(StartedError):
        execute(done)


def test_in_a_new_project_the_server_starts_at_once(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epigram.runner.prefect.execution.open_workspace", lambda request: pytest.fail("opened"))
    for overrides in ({}, {"systems": ("mlp",)}):
        with pytest.raises(StartedError):
            execute(toy, **overrides)


def test_a_tree_that_another_run_uses_is_refused(done: Toy) -> None:
    with (
        exclusive_lock(done.root / ".epigram" / "tree.lock", str),
        pytest.raises(TryAgainError),
    ):
        execute(done)


def test_the_command_starts_no_server(done: Toy) -> None:
    command = done.command("--name", "again")
    output, errors = command.communicate(timeout=120)
    assert command.returncode == 0, errors
    assert output.startswith("0 of 6 stages executed in ")
    assert not (done.told / "prefect" / "server.log").exists()
