"""Tests of the start of a run's server: what happens meanwhile, and what the server leaves out."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from epigram.core.errors import ParameterError
from epigram.runner.prefect import execution
from epigram.runner.service import server


class Recorded:
    """Server that records what happens to it."""

    def __init__(self, steps: list[str]) -> None:
        self.child, self.url, self.steps = None, "http://127.0.0.1:9", steps
        steps.append("start")

    def wait(self) -> None:
        self.steps.append("wait")

    def stop(self) -> None:
        self.steps.append("stop")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(execution.server, "start", lambda: Recorded(found))
    return found


def test_checks_and_imports_happen_while_the_server_starts(steps: list[str]) -> None:
    _, flow = execution.start_server(lambda: steps.append("load"), check=lambda: steps.append("check"))
    assert (steps, flow) == (["start", "check", "load", "wait"], None)


def test_the_server_ends_with_the_error_of_a_check(steps: list[str]) -> None:
    def refuse() -> None:
        raise ParameterError("no such data set")

    with pytest.raises(ParameterError, match="no such data set"):
        execution.start_server(lambda: steps.append("load"), check=refuse)
    assert steps == ["start", "stop"]


def test_the_server_of_a_run_adds_no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[dict[str, str]] = []

    def launch(_factory: str, _port: int, extra: dict[str, str]) -> Any:
        launched.append(extra)

    monkeypatch.setattr(server, "running", lambda: None)
    monkeypatch.setattr(server, "_launch", launch)
    monkeypatch.setenv(server.API_URL, "http://127.0.0.1:9/api")
    server.start()
    code = "from prefect.settings import PREFECT_API_BLOCKS_REGISTER_ON_START as setting; print(setting.value())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | launched[0], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
