"""One stage as a Prefect task: `dvc repro --single-item` in a process of its own, its outcome as the task's state."""

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

from pithy.errors import RETRYABLE, PithyError, TryAgainError
from tasks import leash, mend
from tasks.board import RETRYING, Board
from tasks.progress import Gauge
from tasks.slots import Slots
from tasks.transcript import KILLED, PROGRESS, Transcript, told

RETRIED = RETRYABLE | {KILLED}
DELAYS = (5.0, 20.0)  # seconds before the second and the third try
PROGRESS_EVERY = 5.0  # seconds between two progress lines in the Prefect log and dashboard
DVC = Path(__file__).with_name("dvc_repro.py")
LONGEST_LINE = 2_000  # characters

Log = logging.Logger | logging.LoggerAdapter[Any]


@dataclass(frozen=True)
class Outcome:
    """How a stage ended: the state's name, the stage's own exit code, its last lines where it failed."""

    state: str
    code: int = 0
    message: str = ""

    def as_state(self) -> State[Outcome]:
        """The task run's final state."""
        if self.state == "Failed":
            return Failed(message=told(self.message)[0], data=self)  # the log has the rest
        if self.state == "Cancelled":
            return Cancelled(message=self.message, data=self)
        return Completed(name=self.state, data=self)


class Work(Protocol):
    """What the task of a stage works with."""

    def run(self, name: str, log: Log, report: Callable[[str], None]) -> Outcome:
        """Run the stage to its end."""

    def again(self, name: str, line: str) -> None:
        """A try has failed; another follows."""

    def ended(self, name: str, outcome: Outcome) -> None:
        """The stage has come to its end."""


class Runner:
    """Runs the stages of one workspace in its `slots`; after `stop` nothing runs and nothing starts."""

    def __init__(self, root: Path, board: Board, slots: Slots) -> None:
        self.root, self.board = root, board
        self.outcomes: dict[str, Outcome] = {}  # final ones, in the order in which they came
        self._slots = slots
        self._looking = threading.Lock()
        self._pack = leash.Pack()

    def run(self, name: str, log: Log, report: Callable[[str], None] = lambda line: None) -> Outcome:
        """Run one stage to its end; what it prints goes to `log` and to the board, its progress to `report` as well."""
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
        """DVC trusts its cache: what it took from there or put there is looked at here, and removed if damaged."""
        with self._looking:  # DVC's own objects are not made for several threads
            return bool(mend.damaged(self.root, [name]))

    def stop(self) -> None:
        """End every running stage with all that it started, and start none any more."""
        self._pack.stop()

    def again(self, name: str, line: str) -> None:
        """A try has failed; another follows."""
        self.board.end(name, RETRYING, line)

    def ended(self, name: str, outcome: Outcome) -> None:
        """The stage has come to its end."""
        self.outcomes[name] = outcome
        self.board.end(name, outcome.state, outcome.message.rpartition("\n")[2])

    def take_over(self, name: str, state: State[Any]) -> None:
        """What became of a task that told nothing here: it ran elsewhere, it broke, or one before it failed."""
        outcome = state.result(raise_on_failure=False) if state.is_final() else None
        if isinstance(outcome, Outcome):
            self.ended(name, outcome)
        else:
            self.board.end(name, str(state.name))
            if state.is_failed() or state.is_crashed():
                self.outcomes[name] = Outcome("Failed", PithyError.code, state.message or "the task broke")

    def _outcome(self, transcript: Transcript, dvc_code: int) -> Outcome:
        if self._pack.stopped:
            return Outcome("Cancelled", TryAgainError.code, "the run was stopped")
        code = transcript.exit_code(dvc_code)
        if code == 0:
            return Outcome(transcript.state)
        killed = "killed, most often because memory ran out" if code == KILLED else ""
        return Outcome("Failed", code, transcript.last_lines() or killed or f"exit code {code}")


def stage_task(work: Work, name: str, *, current: bool, delays: Sequence[float] = DELAYS) -> Task[[], State[Any]]:
    """The Prefect task of one stage. A `current` one ends Cached without a process.

    Exit codes that trying again can mend are retried after each of `delays`, in seconds.
    """
    tries = 0

    @task(
        name=name,
        task_run_name=name,
        retries=len(delays),
        retry_delay_seconds=list(delays),
        retry_condition_fn=_can_be_mended,
        cache_policy=NO_CACHE,  # DVC alone knows what is cached
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
    """`dvc repro` with `arguments` on a leash; it waits for DVC's lock, and what it says comes as one stream."""
    return leash.start(
        [sys.executable, "-P", str(DVC), "--wait-for-lock", "repro", *arguments],
        cwd=root,
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def environment(root: Path) -> dict[str, str]:
    """What a stage's process sees: this interpreter first, the workspace's own code, progress as marked lines."""
    code = [str(root / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, code)),
        "PYTHONUNBUFFERED": "1",
        "PITHY_PROGRESS": "lines",
        "DVC_NO_ANALYTICS": "1",
    }


def _listen(
    child: subprocess.Popen[str],
    transcript: Transcript,
    log: Log,
    show: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    """Pass on each line as it comes: to the view and to the log; progress to the log and `report` now and then."""
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
