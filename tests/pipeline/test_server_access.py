"""Access to a server started here: no foreign web page, and with a password only clients that have it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from epigram.runner.service import prefect_adapter
from epigram.runner.service import server as api
from tests.support.prefect_home import add_database

pytestmark = pytest.mark.extended

SECRET = "admin:x9s3cret"
FLOW = """
from prefect import flow
@flow(log_prints=True)
def hello():
    print("done")
hello()
"""
EVENTS = """
import asyncio, sys
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
async def main():
    try:
        async with connect(sys.argv[1], origin=sys.argv[2] or None, subprotocols=["prefect"], proxy=None):
            print("open")
    except InvalidStatus as error:
        print(error.response.status_code)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a dashboard with a password."""
    port = api.free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(add_database(tmp_path_factory.mktemp("prefect"))))
        patch.setenv("PREFECT_SERVER_API_AUTH_STRING", SECRET)
        patch.setenv(api.API_URL, "")
        started = api.Server(api.local_url(port), api.start_dashboard(port, ""))
    if "prefect.context" in sys.modules:  # other tests of this process know no password
        prefect_adapter.refresh_settings()
    try:
        started.wait()
        yield started.url
    finally:
        started.stop()


def create(url: str, name: str, **headers: str) -> int:
    with httpx.Client(auth=("admin", "x9s3cret"), trust_env=False) as client:
        return client.post(f"{url}/api/flows/", json={"name": name}, headers=headers).status_code


def flows(url: str) -> set[str]:
    answer = httpx.post(f"{url}/api/flows/filter", json={}, auth=("admin", "x9s3cret"), trust_env=False)
    return {flow["name"] for flow in answer.raise_for_status().json()}


def test_a_foreign_page_creates_nothing_even_with_the_password(url: str) -> None:
    assert create(url, "foreign-origin", Origin="https://evil.example") == 403
    assert create(url, "foreign-host", Host="evil.example") == 403
    assert create(url, "own", Origin=url) == 201
    assert flows(url) & {"foreign-origin", "foreign-host", "own"} == {"own"}


def test_a_foreign_page_is_told_nothing_by_cors(url: str) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Origin": "https://evil.example"}
    answer = httpx.options(f"{url}/api/flows/", headers=asked, trust_env=False)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_only_the_password_opens_the_api(url: str) -> None:
    for auth in (None, ("admin", "wrong")):
        assert httpx.post(f"{url}/api/flows/filter", json={}, auth=auth, trust_env=False).status_code == 401
    assert httpx.get(f"{url}/api/health", trust_env=False).status_code == 200


@pytest.mark.parametrize(("secret", "works"), [(SECRET, True), ("admin:wrong", False)])
def test_a_flow_runs_with_the_password_only(url: str, secret: str, works: bool, tmp_path: Path) -> None:
    own = {"PREFECT_API_URL": f"{url}/api", "PREFECT_API_AUTH_STRING": secret, "PREFECT_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FLOW], env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == works, done.stderr
    assert works or "401" in done.stderr


@pytest.mark.parametrize(("origin", "said"), [("https://evil.example", "403"), ("", "open")])
def test_a_foreign_page_gets_no_event_stream(url: str, origin: str, said: str) -> None:
    address = f"{url.replace('http', 'ws', 1)}/api/events/out"
    command = [sys.executable, "-c", EVENTS, address, origin]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == said, done.stderr
