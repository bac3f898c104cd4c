"""Processes behind `make serve`: server, work pool, worker, deployments and automations, all supervised."""

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

from epigram.core.display import echo
from epigram.core.errors import TryAgainError
from epigram.runner import child_process
from epigram.runner.service import database, deployments, server, webhook_relay

SHORT = 60.0  # seconds; a process that runs longer counts as healthy
ACCIDENTS = 3  # consecutive early exits after which a process is still restarted
PAUSE = 0.5  # seconds between two checks of the processes


@dataclass
class Kept:
    """A process that is restarted when it exits by itself."""

    name: str
    start: Callable[[], subprocess.Popen[str]]
    child: subprocess.Popen[str]
    began: float = field(default_factory=time.monotonic)
    short: int = 0  # consecutive early exits

    def look(self) -> None:
        """Restart the process if it has exited. Raises TryAgainError after too many early exits in a row."""
        code = self.child.poll()
        if code is None:
            return
        self.short = self.short + 1 if time.monotonic() - self.began < SHORT else 0
        said = f"the {self.name} ended (exit {code}): see {_log(self.name)}"
        if self.short > ACCIDENTS:
            raise TryAgainError(said)
        echo(f"{said}; it is started again", file=sys.stderr, flush=True)
        self.child, self.began = self.start(), time.monotonic()

    def end(self) -> None:
        """Terminate the process and all that it started, and wait for it."""
        child_process.let_go(self.child)
        self.child.wait()


def serve(root: Path, port: int, announce: Callable[[str], None]) -> NoReturn:
    """Serve the repository `root` until interrupted; call `announce` with the server's URL once it responds.

    DATABASE, DATABASE_FILE and EPIGRAM_WEBHOOK are removed from the environment, because they contain secrets that no
    other process needs.
    """
    address, webhook = database.address(), os.environ.pop("EPIGRAM_WEBHOOK", "")
    wanted = deployments.names(root)
    address = database.checked(address) if address else ""
    port = port or server.free_port()
    with ExitStack() as stack:
        door = stack.enter_context(webhook_relay.door(webhook)) if webhook else None
        api = _keep(stack, "server", lambda: server.start_dashboard(port, address))
        from epigram.runner.service import automations  # imports Prefect while the server starts

        server.Server(server.local(port), api.child).wait()
        announce(server.local(port))
        _tidy_up(root)
        automations.ensure(door)
        deployments.deploy(root, wanted)
        stack.callback(_bury)
        worker = _keep(stack, "worker", _worker)
        echo(f"scheduled: {', '.join(wanted)} ({deployments.FILE})", flush=True)
        while True:
            api.look()
            worker.look()
            time.sleep(PAUSE)


def _keep(stack: ExitStack, name: str, start: Callable[[], subprocess.Popen[str]]) -> Kept:
    _log(name).unlink(missing_ok=True)
    kept = Kept(name, start, start())
    stack.callback(kept.end)
    return kept


def _worker() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", deployments.POOL, "--type", "process"]
    with _log("worker").open("a") as log:
        return child_process.start(command, env=os.environ, stdout=log, stderr=log)


def _tidy_up(root: Path) -> None:
    """Prepare the work pool before a worker starts: a worker starts all overdue runs at once."""
    deployments.pool(root)
    deployments.bury(stopped=False)
    deployments.skip_missed()


def _bury() -> None:
    """Cancel unfinished runs after the worker and before the server ends; ignore errors if the server has failed."""
    with suppress(httpx.HTTPError):
        deployments.bury(stopped=True)


def _log(name: str) -> Path:
    return server.home() / f"{name}.log"
