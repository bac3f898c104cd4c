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
from epigram.runner.prefect.execution import run_flow
from epigram.runner.service import server

URL = "http://127.0.0.1:9"


def test_prefect_that_was_imported_before_uses_the_server_that_is_served() -> None:
    """Otherwise Prefect starts its own server, which lacks the check of Host and Origin and outlives the run."""
    code = (
        "import prefect.context; from prefect.settings import PREFECT_API_URL;"
        "from epigram.runner.service import server;"
        "from epigram.runner.service.service_lock import Service;"
        f"server.service_lock.holder = lambda: Service(1, {URL!r}, '', '');"
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


def started(folder: Path, **variables: str) -> str:
    """Return the URL of the server that a command in `folder`, the user's home, uses; `own` for a new one."""
    code = (
        "from epigram.runner.service import server; server._launch = lambda *_: print('own');print(server.start().url)"
    )
    hidden = {server.API_URL, "PREFECT_HOME", "PREFECT_PROFILES_PATH"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"HOME": str(folder), "PYTHONPATH": str(Path(server.__file__).parents[3]), **variables}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


def write_profile(home: Path, url: str) -> None:
    """Write an active profile of Prefect whose API is at `url`."""
    (home / ".prefect").mkdir()
    profile = f'active = "team"\n[profiles.team]\nPREFECT_API_URL = "{url}/api"\n'
    (home / ".prefect/profiles.toml").write_text(profile)


def test_the_server_of_the_user_s_profile_is_used(tmp_path: Path) -> None:
    write_profile(tmp_path, URL)
    assert started(tmp_path) == URL


@pytest.mark.parametrize(("address", "wanted"), [(f"{URL}/api", URL), ("", "own")])
def test_the_environment_has_priority_over_the_profile(address: str, wanted: str, tmp_path: Path) -> None:
    write_profile(tmp_path, "http://127.0.0.1:8")
    assert started(tmp_path, PREFECT_API_URL=address) == wanted


def test_a_profile_next_to_a_home_of_the_user_s_choice_is_not_that_of_the_user_s_folder(tmp_path: Path) -> None:
    write_profile(tmp_path, URL)
    assert started(tmp_path, PREFECT_HOME=str(tmp_path / "other")) == "own"


def test_the_server_of_prefect_toml_is_used(tmp_path: Path) -> None:
    (tmp_path / "prefect.toml").write_text(f'[api]\nurl = "{URL}/api"\n')
    assert started(tmp_path) == URL


def test_without_a_configured_server_prefect_is_not_imported_to_look_for_one(tmp_path: Path) -> None:
    code = "import sys; from epigram.runner.service import server; assert server.configured_url() == '';"
    code += "sys.exit('prefect' in sys.modules)"
    env = {name: value for name, value in os.environ.items() if name != server.API_URL}
    env |= {"PYTHONPATH": str(Path(server.__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True)


@pytest.mark.parametrize("profile", [False, True])
def test_importing_the_runner_sets_only_these_variables(profile: bool, tmp_path: Path) -> None:
    if profile:
        write_profile(tmp_path, URL)
    code = (
        "import os; before = dict(os.environ); import epigram.runner;"
        "print(*sorted(name for name in os.environ if os.environ[name] != before.get(name)))"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(Path(server.__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    logging = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
    profiles = ["PREFECT_PROFILES_PATH"] if profile else []
    assert done.stdout.split() == ["DO_NOT_TRACK", "NO_PROXY", "PREFECT_HOME", logging, *profiles, "no_proxy"]
