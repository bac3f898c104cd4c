"""Stages and runs on the workers of a Ray cluster, through Prefect's task runner for it (the extra `ray`).

The workers see the repository under the same path: on one machine, or on a disk that all of them share.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pithy.errors import InputMissingError, TryAgainError
from tasks.address import LOCAL
from tasks.board import Board
from tasks.graph import Graph
from tasks.slots import Slots
from tasks.stage import Log, Outcome, Runner

if TYPE_CHECKING:
    from prefect import Task
    from prefect.client.schemas.objects import State
    from prefect.futures import PrefectFuture
    from prefect.task_runners import TaskRunner

# Otherwise Ray kills a worker's leash, which could then not end the stage that hangs on it.
OWN_END = {"RAY_kill_child_processes_on_worker_exit": "false"}
HANDED_ON = ("PREFECT_", "PITHY_", "OMP_")  # beginnings of the variables that a worker needs


@dataclass(frozen=True)
class Remote:
    """Runs a stage of the workspace `root` on the worker that its task was sent to, and tells nobody but that task."""

    root: Path

    def run(self, name: str, log: Log, report: Callable[[str], None]) -> Outcome:
        """Run the stage. It hangs on this process: whatever ends the worker ends the stage."""
        return Runner(self.root, Board([name], Console(quiet=True)), slots=Slots(1)).run(name, log, report)

    def again(self, name: str, line: str) -> None:
        """The board is elsewhere."""

    def ended(self, name: str, outcome: Outcome) -> None:
        """The board is elsewhere."""


@contextmanager
def joined(
    address: str | None, root: Path, slots: int | None = None
) -> Iterator[TaskRunner[PrefectFuture[Any]] | None]:
    """The task runner of the Ray cluster at `address`: `local`, `auto`, HOST:PORT or ray://HOST:PORT. None for None.

    A local cluster runs `slots` tasks at a time. Raises InputMissingError without Ray, TryAgainError where the cluster
    does not answer.
    """
    if address is None:
        yield None
        return
    try:
        import ray
        from prefect_ray import RayTaskRunner
    except ImportError:
        raise InputMissingError("--ray needs Ray: pip install 'pithy[ray]'") from None
    try:
        ray.init(address=address, **_options(address, root, slots))
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise TryAgainError(f"no Ray cluster answers at {address}: {' '.join(str(error).split())[:200]}") from None
    try:
        yield RayTaskRunner()
    finally:
        ray.shutdown()


def _options(address: str, root: Path, slots: int | None) -> dict[str, Any]:
    """What Ray is told: the workers find the code of `root`, and talk to the server that we talk to."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(HANDED_ON)}
    code = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    settings |= {"PYTHONPATH": os.pathsep.join(filter(None, code)), **OWN_END}
    # Ray starts a worker by a line for the shell, in which it does not quote the path of Python.
    environment = {"env_vars": settings, "py_executable": shlex.quote(sys.executable)}
    options = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": environment}
    if address == LOCAL:
        os.environ.update(OWN_END)
        options |= {"num_cpus": slots or os.cpu_count(), "include_dashboard": False}
    return options


def run(stages: Graph, tasks: dict[str, Task[[], State[Any]]], runner: Runner) -> None:
    """Send each stage as soon as those that it needs have ended: a task that waits takes up a process of a worker."""
    import ray

    futures: dict[str, Any] = {}
    running: dict[Any, str] = {}
    ended: set[str] = set()
    while len(ended) < len(stages):
        for stage in stages:
            if stage.name not in futures and stage.needs <= ended:
                runner.board.begin(stage.name)
                needed = [futures[need] for need in sorted(stage.needs)]
                future: Any = tasks[stage.name].submit(return_state=False, wait_for=needed)
                futures[stage.name], running[future.wrapped_future] = future, stage.name
        name = running.pop(ray.wait(list(running))[0][0])
        futures[name].wait()
        runner.take_over(name, futures[name].state)
        ended.add(name)
