"""Toy repository with a running service, and a server that receives its notifications."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.processes import command_line, until
from tests.support.toy import Toy

QUICK = {
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
    "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "00:00:01",
}

FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}

DEPLOYMENTS = """\
name: toy
build: [{prefect.deployments.steps.run_shell_script: {id: commit, script: git rev-parse --short HEAD}}]
pull: []
definitions:
  alone: &alone {limit: 1, collision_strategy: CANCEL_NEW}
deployments:
  - name: pipeline
    entrypoint: flows.pipeline.pipeline
    version: "{{ commit.stdout }}"
    parameters: {request: {root: "{{ $PWD }}", revision: HEAD}}
    schedules: [{interval: 10}]
    concurrency_limit: *alone
    work_pool: {name: epigram}
  - name: refresh
    entrypoint: flows.refresh_pos.refresh_pos
    version: "{{ commit.stdout }}"
    parameters: {root: "{{ $PWD }}", stage: gather}
    concurrency_limit: *alone
    work_pool: {name: epigram, job_variables: {env: {SHOWN: by its deployment}}}
"""


class Serving:
    """`epigram dashboard` running in a toy repository."""

    def __init__(self, toy: Toy, **environment: str) -> None:
        self.toy = toy
        self.env = toy.env | QUICK | environment
        self.command = toy.command("--port", "0", name="dashboard", env=self.env)
        assert self.command.stdout is not None
        line = self.command.stdout.readline()
        assert line.startswith("dashboard: http://127.0.0.1:"), self.command.communicate(timeout=60)[1]
        self.url = line.split()[1]
        assert self.command.stdout.readline().startswith("scheduled: "), self.command.communicate(timeout=60)[1]

    def ask(self, path: str, **content: Any) -> Any:
        """Return the response of the server's API to a POST; retry while SQLite is busy."""
        for _ in range(10):
            answer = httpx.post(f"{self.url}/api/{path}", json=content, timeout=60)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(1)
        return answer.raise_for_status().json() if answer.content else None

    def start(self, flow: str, name: str, **state: Any) -> str:
        """Start a run of a deployment, immediately unless `state` sets another time; return its id."""
        path = f"deployments/{self._id(flow, name)}/create_flow_run"
        return str(self.ask(path, state={"type": "SCHEDULED", **state})["id"])

    def settle(self, name: str = "pipeline") -> None:
        """Turn off the schedule of a flow, which would block other runs, and wait for all runs to end."""
        self.ask(f"deployments/{self._id(name, name)}/pause_deployment")
        until(self._settled, 240, lambda: [[run["name"], run["state"]] for run in self.runs()])

    def _settled(self) -> bool:
        """Return whether all runs have ended; delete those that the scheduler inserts while it is turned off."""
        active = [run for run in self.runs() if run["state_type"] not in FINAL]
        for run in active:
            if run["auto_scheduled"] and run["state_type"] == "SCHEDULED":
                httpx.delete(f"{self.url}/api/flow_runs/{run['id']}", timeout=60)
        return not active

    def _id(self, flow: str, name: str) -> str:
        answer = httpx.get(f"{self.url}/api/deployments/name/{flow}/{name}", timeout=60)
        return str(answer.raise_for_status().json()["id"])

    def runs(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the flow runs whose fields have these values, oldest first."""
        found = self.ask("flow_runs/filter", sort="EXPECTED_START_TIME_ASC")
        return [run for run in found if all(run[key] == value for key, value in wanted.items())]

    def until_child(self) -> None:
        """Wait until a stage has started its child process."""
        states = ("name", "state_name", "state")
        until((self.toy.told / "child").exists, 240, lambda: [[run[key] for key in states] for run in self.runs()])

    def heartbeats(self, run: str) -> int:
        """Return the number of heartbeats of the run that the server has received."""
        wanted = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": [f"prefect.flow-run.{run}"]}}
        return int(self.ask("events/filter", filter=wanted)["total"])

    def ended(self, run: str, seconds: float = 120.0) -> dict[str, Any]:
        """Wait for the final state of a run and return it."""
        found = until(lambda: [each for each in self.runs(id=run) if each["state_type"] in FINAL], seconds)
        return dict(found[0]["state"])

    def family(self) -> list[psutil.Process]:
        """Return the service process and all its descendants."""
        serves = psutil.Process(self.command.pid)
        return [serves, *serves.children(recursive=True)]

    def engine(self) -> psutil.Process:
        """Return the process of the active flow run."""
        return next(each for each in self.family() if command_line(each).endswith("-m prefect.engine"))

    def stop(self) -> subprocess.CompletedProcess[str]:
        """Stop the service from another process, as `make stop` does."""
        other = self.toy.command(name="stop", env=self.env)
        output, errors = other.communicate(timeout=120)
        return subprocess.CompletedProcess(other.args, other.returncode, output, errors)

    def kill(self) -> list[psutil.Process]:
        """Kill the service with SIGKILL; return the processes that were running."""
        if self.command.poll() is not None:
            return []
        family = self.family()
        self.command.send_signal(signal.SIGKILL)
        self.command.communicate(timeout=60)
        return family


def refused(toy: Toy, **environment: str) -> tuple[int, str]:
    """Return the exit code and the error of a service that fails to start."""
    command = toy.command(name="dashboard", env=toy.env | environment)
    errors = command.communicate(timeout=120)[1]
    return command.returncode, errors


def written(toy: Toy, *secrets: str) -> list[Path]:
    """Return the files of the repository, its Prefect home and its journal that contain one of `secrets`."""
    files = [file for root in (toy.root, toy.told) for file in root.rglob("*") if file.is_file()]
    return [file for file in files if any(secret.encode() in file.read_bytes() for secret in secrets)]


@contextmanager
def listening() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield a local URL and the list of messages posted to it."""
    heard: list[dict[str, Any]] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.append({"path": self.path, **body})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Ear) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()
