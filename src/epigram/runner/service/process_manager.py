"""Processes behind `epigram dashboard`: server, work pool, worker, deployments and automations, all supervised."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import httpx

from epigram.core.config_types import read_yaml
from epigram.core.errors import InputMissingError, ParameterError, TryAgainError
from epigram.process.display import echo
from epigram.runner import child_process
from epigram.runner.service import database, server
from epigram.runner.service.server import FILE, POOL

MIN_UPTIME = 60.0  # seconds; a process that runs longer counts as healthy
MAX_EARLY_EXITS = 3  # consecutive early exits after which a process is still restarted
CHECK_INTERVAL = 0.5  # seconds between two checks of the processes


@dataclass
class ManagedProcess:
    """A process that is restarted when it exits by itself."""

    name: str
    start: Callable[[], subprocess.Popen[str]]
    child: subprocess.Popen[str]
    started_at: float = field(default_factory=time.monotonic)
    early_exits: int = 0  # consecutive early exits

    def restart_if_exited(self) -> None:
        """Restart the process if it has exited. Raises TryAgainError after too many early exits in a row."""
        code = self.child.poll()
        if code is None:
            return
        self.early_exits = self.early_exits + 1 if time.monotonic() - self.started_at < MIN_UPTIME else 0
        message = f"the {self.name} exited with code {code}; see {_log_file(self.name)}"
        if self.early_exits > MAX_EARLY_EXITS:
            raise TryAgainError(message)
        echo(f"{message}; restarting it", file=sys.stderr, flush=True)
        self.child, self.started_at = self.start(), time.monotonic()

    def terminate(self) -> None:
        """Terminate the process and all that it started, and wait for it."""
        child_process.terminate(self.child)
        self.child.wait()


def serve(root: Path, port: int, record: Callable[[str], None]) -> NoReturn:
    """Serve the repository `root` until interrupted; call `record` with the server's URL when it responds.

    DATABASE, DATABASE_FILE and EPIGRAM_WEBHOOK are removed from the environment, because they contain secrets that no
    other process needs.
    """
    address, webhook = database.pop_address(), os.environ.pop("EPIGRAM_WEBHOOK", "")
    names = deployment_names(root)
    address = database.check_connection(address) if address else ""
    port = port or server.free_port()
    with ExitStack() as stack:
        api = _start_managed(stack, "server", lambda: server.start_dashboard(port, address))
        from epigram.runner.service import deployments, notices  # import Prefect while the server starts

        relay_url = stack.enter_context(notices.start_relay(webhook)) if webhook else None
        server.Server(server.local_url(port), api.child).wait()
        record(server.local_url(port))
        echo(f"dashboard: {server.local_url(port)} (stop it with Ctrl-C or epigram stop)", flush=True)
        deployments.create_work_pool(root)
        deployments.close_lost_runs(stopped=False)
        deployments.delete_missed_runs()  # a worker would start all of them at once
        notices.ensure(relay_url)
        deployments.deploy(root, names)
        stack.callback(_cancel_unfinished_runs)
        worker = _start_managed(stack, "worker", _start_worker)
        echo(f"scheduled: {', '.join(names)} ({FILE})", flush=True)
        while True:
            api.restart_if_exited()
            worker.restart_if_exited()
            time.sleep(CHECK_INTERVAL)


def deployment_names(root: Path) -> list[str]:
    """Return the names of the deployments in prefect.yaml.

    Raises InputMissingError if the file is missing, ParameterError if a deployment has no name.
    """
    try:
        return [str(each["name"]) for each in read_yaml(root / FILE)["deployments"]]
    except FileNotFoundError:
        raise InputMissingError(f"{root / FILE} does not exist; run from the root of the repository") from None
    except (TypeError, KeyError) as error:
        raise ParameterError(
            f"{FILE}: expected a list `deployments` with a `name` for each entry ({error!r:.200})"
        ) from None


def _start_managed(stack: ExitStack, name: str, start: Callable[[], subprocess.Popen[str]]) -> ManagedProcess:
    _log_file(name).unlink(missing_ok=True)
    process = ManagedProcess(name, start, start())
    stack.callback(process.terminate)
    return process


def _start_worker() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    with _log_file("worker").open("a", encoding="utf-8") as log:
        return child_process.start(command, env=os.environ, stdout=log, stderr=log)


def _cancel_unfinished_runs() -> None:
    """Cancel unfinished runs after the worker and before the server ends; ignore errors if the server has failed."""
    from epigram.runner.service import deployments

    with suppress(httpx.HTTPError):
        deployments.close_lost_runs(stopped=True)


def _log_file(name: str) -> Path:
    return server.home() / f"{name}.log"
