"""Stage as a Prefect task: `dvc repro --single-item` in a child process, with its outcome as the task's state."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prefect import Task, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Cancelled, Completed, Failed

from epigram.core.errors import RETRYABLE, EpigramError, TryAgainError
from epigram.runner import child_process
from epigram.runner.dvc import repair
from epigram.runner.dvc.dvc_output import KILLED, PROGRESS, ReproOutputParser, split_error
from epigram.runner.prefect.progress_artifact import ProgressArtifact
from epigram.runner.prefect.slots import Slots
from epigram.runner.prefect.status_table import RETRYING, StatusTable

RETRIED_CODES = RETRYABLE | {KILLED}
RETRY_DELAYS = (5.0, 20.0)  # seconds before the second and the third try
PROGRESS_INTERVAL = 5.0  # seconds between two progress lines in the Prefect log and dashboard
REPRO_SCRIPT = Path(__file__).parents[1] / "dvc" / "repro.py"
MAX_LINE_LENGTH = 2_000  # characters

Log = logging.Logger | logging.LoggerAdapter[Any]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a stage: the state's name, the stage's own exit code and, if it failed, its last lines."""

    state: str
    code: int = 0
    message: str = ""

    def as_state(self) -> State[Outcome]:
        """Return the task run's final state."""
        if self.state == "Failed":
            return Failed(message=split_error(self.message)[0], data=self)  # the log contains the rest
        if self.state == "Cancelled":
            return Cancelled(message=self.message, data=self)
        return Completed(name=self.state, data=self)


class StageRunner(Protocol):
    """Interface through which a stage's task runs the stage."""

    def run(self, name: str, log: Log, report: Callable[[str], None]) -> Outcome:
        """Run the stage to its end."""

    def report_retry(self, name: str, line: str) -> None:
        """Report that a try has failed and another one follows."""

    def report_end(self, name: str, outcome: Outcome) -> None:
        """Report that the stage has finished."""


class Runner:
    """Runner for the stages of one workspace, limited by `slots`; after `stop`, nothing runs and nothing starts."""

    def __init__(self, root: Path, table: StatusTable, slots: Slots) -> None:
        self.root, self.table = root, table
        self.outcomes: dict[str, Outcome] = {}  # final outcomes, in order of completion
        self._slots = slots
        self._repair_lock = threading.Lock()
        self._processes = child_process.ProcessPool()

    def run(self, name: str, log: Log, report: Callable[[str], None] = lambda line: None) -> Outcome:
        """Run one stage to its end; send its output to `log` and the status table, and its progress also to `report`.

        If a cache file of its outputs is damaged, the stage runs again.
        """
        with self._slots.acquire(name):
            outcome = self._run(name, log, report)
            if not outcome.code and self._remove_damaged(name):
                log.warning("DVC's cache had a damaged file of %s; running the stage again", name)
                outcome = self._run(name, log, report)
        return outcome

    def _run(self, name: str, log: Log, report: Callable[[str], None]) -> Outcome:
        child = self._processes.start(lambda: start_repro(self.root, "--single-item", name))
        if child is None:
            return Outcome("Cancelled", TryAgainError.code, "the run was stopped")
        self.table.start(name)
        parser = ReproOutputParser(name)
        with child:
            _forward_output(child, parser, log, lambda line: self.table.set_line(name, line), report)
        self._processes.discard(child)
        return self._outcome(parser, child.returncode)

    def _remove_damaged(self, name: str) -> bool:
        """Delete damaged cache files of the stage, since DVC does not verify them; return whether any were found."""
        with self._repair_lock:  # DVC's objects are not thread-safe
            return bool(repair.remove_damaged_outputs(self.root, [name]))

    def stop(self) -> None:
        """Terminate all running stages with all that they started, and start no new ones."""
        self._processes.stop()

    def report_retry(self, name: str, line: str) -> None:
        """Show that a try has failed and another one follows."""
        self.table.stop(name, RETRYING, line)

    def report_end(self, name: str, outcome: Outcome) -> None:
        """Record the stage's final outcome."""
        self.outcomes[name] = outcome
        self.table.stop(name, outcome.state, outcome.message.rpartition("\n")[2])

    def record_state(self, name: str, state: State[Any]) -> None:
        """Record the state of a task that did not report here: it ran remotely, it crashed, or a dependency failed."""
        outcome = state.result(raise_on_failure=False) if state.is_final() else None
        if isinstance(outcome, Outcome):
            self.report_end(name, outcome)
        else:
            self.table.stop(name, str(state.name))
            if state.is_failed() or state.is_crashed():
                self.outcomes[name] = Outcome(
                    "Failed", EpigramError.code, state.message or "the task failed without a message"
                )

    def _outcome(self, parser: ReproOutputParser, dvc_code: int) -> Outcome:
        if self._processes.stopped:
            return Outcome("Cancelled", TryAgainError.code, "the run was stopped")
        code = parser.exit_code(dvc_code)
        if code == 0:
            return Outcome(parser.state)
        killed = (
            "killed, probably because the machine is out of memory; free memory and rerun" if code == KILLED else ""
        )
        return Outcome("Failed", code, parser.last_lines() or killed or f"exit code {code}")


def stage_task(
    runner: StageRunner, name: str, *, current: bool, delays: Sequence[float] = RETRY_DELAYS
) -> Task[[], State[Any]]:
    """Return the Prefect task of one stage. A `current` stage ends as Cached without a process.

    A stage with a retryable exit code is retried after each of `delays`, in seconds.
    """
    attempts = 0

    @task(
        name=name,
        task_run_name=name,
        retries=len(delays),
        retry_delay_seconds=list(delays),
        retry_condition_fn=_is_retryable,
        cache_policy=NO_CACHE,  # DVC decides what is cached
        persist_result=False,
    )
    def stage() -> State[Any]:
        nonlocal attempts
        outcome = Outcome("Cached") if current else _run_with_progress(runner, name)
        if outcome.code in RETRIED_CODES and outcome.state == "Failed" and attempts < len(delays):
            line = f"exit code {outcome.code}; attempt {attempts + 2} of {len(delays) + 1} in {delays[attempts]:g} s"
            runner.report_retry(name, line)
        else:
            runner.report_end(name, outcome)
        attempts += 1
        return outcome.as_state()

    return stage


def _run_with_progress(runner: StageRunner, name: str) -> Outcome:
    artifact = ProgressArtifact(name)
    outcome = runner.run(name, get_run_logger(), artifact.show)
    if not outcome.code:
        artifact.finish()
    return outcome


def _is_retryable(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.data, Outcome) and state.data.code in RETRIED_CODES


def start_repro(root: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a supervised `dvc repro` with `arguments`; it waits for DVC's lock and writes all output to one stream."""
    return child_process.start(
        [sys.executable, "-P", str(REPRO_SCRIPT), "--wait-for-lock", "repro", *arguments],
        cwd=root,
        env=stage_environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def stage_environment(root: Path) -> dict[str, str]:
    """Return the environment of a stage's process: this interpreter, the workspace's code, progress as marked lines."""
    code = [str(root / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, code)),
        "PYTHONUNBUFFERED": "1",
        "EPIGRAM_PROGRESS": "lines",
        "DVC_NO_ANALYTICS": "1",
    }


def _forward_output(
    child: subprocess.Popen[str],
    parser: ReproOutputParser,
    log: Log,
    show_line: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    """Pass each line on at once: to the table and the log; progress lines to the log and `report` only at intervals."""
    last_logged = -PROGRESS_INTERVAL
    for raw in child.stdout or ():
        line = parser.read(raw)[:MAX_LINE_LENGTH]
        if not line:
            continue
        text = line.removeprefix(PROGRESS)
        show_line(text)
        if line.startswith(PROGRESS):
            if time.monotonic() - last_logged < PROGRESS_INTERVAL:
                continue
            last_logged = time.monotonic()
            report(text)
        log.info("%s", text)
