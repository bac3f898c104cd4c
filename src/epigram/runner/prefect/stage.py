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
from epigram.runner.dvc.dvc_output import KILLED, PROGRESS, Transcript, told
from epigram.runner.prefect.progress_artifact import Gauge
from epigram.runner.prefect.slots import Slots
from epigram.runner.prefect.status_table import RETRYING, Board

RETRIED = RETRYABLE | {KILLED}
DELAYS = (5.0, 20.0)  # seconds before the second and the third try
PROGRESS_EVERY = 5.0  # seconds between two progress lines in the Prefect log and dashboard
DVC = Path(__file__).parents[1] / "dvc" / "repro.py"
LONGEST_LINE = 2_000  # characters

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
            return Failed(message=told(self.message)[0], data=self)  # the log contains the rest
        if self.state == "Cancelled":
            return Cancelled(message=self.message, data=self)
        return Completed(name=self.state, data=self)


class Work(Protocol):
    """Interface through which a stage's task runs the stage."""

    def run(self, name: str, log: Log, report: Callable[[str], None]) -> Outcome:
        """Run the stage to its end."""

    def again(self, name: str, line: str) -> None:
        """Report that a try has failed and another one follows."""

    def ended(self, name: str, outcome: Outcome) -> None:
        """Report that the stage has finished."""


class Runner:
    """Runner for the stages of one workspace, limited by `slots`; after `stop`, nothing runs and nothing starts."""

    def __init__(self, root: Path, board: Board, slots: Slots) -> None:
        self.root, self.board = root, board
        self.outcomes: dict[str, Outcome] = {}  # final outcomes, in order of completion
        self._slots = slots
        self._looking = threading.Lock()
        self._pack = child_process.Pack()

    def run(self, name: str, log: Log, report: Callable[[str], None] = lambda line: None) -> Outcome:
        """Run one stage to its end; send its output to `log` and the status table, and its progress also to `report`.

        If a cache file of its outputs is damaged, the stage runs again.
        """
        with self._slots.taken(name):
            outcome = self._run(name, log, report)
            if not outcome.code and self._removed_damaged(name):
                log.warning("a file of it in DVC's cache is damaged: %s runs again", name)
                outcome = self._run(name, log, report)
        return outcome

    def _run(self, name: str, log: Log, report: Callable[[str], None]) -> Outcome:
        child = self._pack.start(lambda: reproduce(self.root, "--single-item", name))
        if child is None:
            return Outcome("Cancelled", TryAgainError.code, "the run was stopped")
        self.board.begin(name)
        transcript = Transcript(name)
        with child:
            _listen(child, transcript, log, lambda line: self.board.say(name, line), report)
        self._pack.ended(child)
        return self._outcome(transcript, child.returncode)

    def _removed_damaged(self, name: str) -> bool:
        """Delete damaged cache files of the stage, since DVC does not verify them; return whether any were found."""
        with self._looking:  # DVC's objects are not thread-safe
            return bool(repair.damaged(self.root, [name]))

    def stop(self) -> None:
        """Terminate all running stages with all that they started, and start no new ones."""
        self._pack.stop()

    def again(self, name: str, line: str) -> None:
        """Show that a try has failed and another one follows."""
        self.board.end(name, RETRYING, line)

    def ended(self, name: str, outcome: Outcome) -> None:
        """Record the stage's final outcome."""
        self.outcomes[name] = outcome
        self.board.end(name, outcome.state, outcome.message.rpartition("\n")[2])

    def take_over(self, name: str, state: State[Any]) -> None:
        """Record the state of a task that did not report here: it ran remotely, it crashed, or a dependency failed."""
        outcome = state.result(raise_on_failure=False) if state.is_final() else None
        if isinstance(outcome, Outcome):
            self.ended(name, outcome)
        else:
            self.board.end(name, str(state.name))
            if state.is_failed() or state.is_crashed():
                self.outcomes[name] = Outcome("Failed", EpigramError.code, state.message or "the task broke")

    def _outcome(self, transcript: Transcript, dvc_code: int) -> Outcome:
        if self._pack.stopped:
            return Outcome("Cancelled", TryAgainError.code, "the run was stopped")
        code = transcript.exit_code(dvc_code)
        if code == 0:
            return Outcome(transcript.state)
        killed = "killed, most often because memory ran out" if code == KILLED else ""
        return Outcome("Failed", code, transcript.last_lines() or killed or f"exit code {code}")


def stage_task(work: Work, name: str, *, current: bool, delays: Sequence[float] = DELAYS) -> Task[[], State[Any]]:
    """Return the Prefect task of one stage. A `current` stage ends as Cached without a process.

    A stage with a retryable exit code is retried after each of `delays`, in seconds.
    """
    tries = 0

    @task(
        name=name,
        task_run_name=name,
        retries=len(delays),
        retry_delay_seconds=list(delays),
        retry_condition_fn=_can_be_mended,
        cache_policy=NO_CACHE,  # DVC decides what is cached
        persist_result=False,
    )
    def stage() -> State[Any]:
        nonlocal tries
        outcome = Outcome("Cached") if current else _measured(work, name)
        if outcome.code in RETRIED and outcome.state == "Failed" and tries < len(delays):
            line = f"exit code {outcome.code}; try {tries + 2} of {len(delays) + 1} in {delays[tries]:g} s"
            work.again(name, line)
        else:
            work.ended(name, outcome)
        tries += 1
        return outcome.as_state()

    return stage


def _measured(work: Work, name: str) -> Outcome:
    gauge = Gauge(name)
    outcome = work.run(name, get_run_logger(), gauge.show)
    if not outcome.code:
        gauge.finish()
    return outcome


def _can_be_mended(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.data, Outcome) and state.data.code in RETRIED


def reproduce(root: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a supervised `dvc repro` with `arguments`; it waits for DVC's lock and writes all output to one stream."""
    return child_process.start(
        [sys.executable, "-P", str(DVC), "--wait-for-lock", "repro", *arguments],
        cwd=root,
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def environment(root: Path) -> dict[str, str]:
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


def _listen(
    child: subprocess.Popen[str],
    transcript: Transcript,
    log: Log,
    show: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    """Pass each line on at once: to the table and the log; progress lines to the log and `report` only at intervals."""
    logged = -PROGRESS_EVERY
    for raw in child.stdout or ():
        line = transcript.read(raw)[:LONGEST_LINE]
        if not line:
            continue
        text = line.removeprefix(PROGRESS)
        show(text)
        if line.startswith(PROGRESS):
            if time.monotonic() - logged < PROGRESS_EVERY:
                continue
            logged = time.monotonic()
            report(text)
        log.info("%s", text)
