"""Tests that a flow uses the server that was started for it, even if Prefect was imported before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import httpx
import pytest

from epigram.core.errors import ParameterError, TryAgainError
from epigram.runner.service import server
from flows.pipeline import run_flow

URL = "http://127.0.0.1:9"


def test_prefect_that_was_imported_before_uses_the_server_that_is_served() -> None:
    """Otherwise Prefect starts its own server, which lacks the check of Host and Origin and outlives the run."""
    code = (
        "import prefect.context; from prefect.settings import PREFECT_API_URL;"
        "from epigram.runner.service import server;"
        "from epigram.runner.service.service_lock import Service;"
        f"server.service_lock.holder = lambda: Service(1, {URL!r});"
        f"server.is_healthy = lambda url: url == {URL!r}; before = PREFECT_API_URL.value();"
        "print(before, server.start().url, PREFECT_API_URL.value())"
    )
    env = {name: value for name, value in os.environ.items() if name != server.API_URL}
    found = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["None", URL, f"{URL}/api"]


def test_a_server_that_asks_for_another_password_is_no_fault_of_ours() -> None:
    asked = httpx.Request("GET", f"{URL}/api/admin/version")

    def refused() -> NoReturn:
        raise httpx.HTTPStatusError("401", request=asked, response=httpx.Response(401, request=asked))

    with pytest.raises(ParameterError, match=rf"^the Prefect server at {URL} requires authentication; set PREFECT"):
        run_flow(server.Server(URL), refused)


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    def silent() -> NoReturn:
        raise httpx.ConnectError("refused")

    with pytest.raises(TryAgainError) as raised:
        run_flow(server.Server("http://me:secret@127.0.0.1:9"), silent)
    assert str(raised.value).startswith("the Prefect server at http://***@127.0.0.1:9 stopped responding; rerun")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:4200/api", "file:///etc/passwd"])
def test_an_address_of_a_server_that_is_none_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server.API_URL, address)
    with pytest.raises(ParameterError, match=r"^PREFECT_API_URL is not a valid URL; expected http://HOST:PORT/api, or"):
        server.start()


def test_the_first_command_in_a_clone_warns_of_no_missing_folder(tmp_path: Path) -> None:
    code = "import epigram.runner, prefect.context"
    root = str(Path(server.__file__).parents[3])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    own = {name: value for name, value in env.items() if name != "PREFECT_HOME"}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=own, capture_output=True, text=True, check=True
    )
    assert said.stderr == ""
