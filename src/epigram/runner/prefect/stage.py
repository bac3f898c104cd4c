"""Stage of a run: `dvc repro --single-item` in a child process, with its outcome as the task's state."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from prefect import Task, get_run_logger
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Cancelled, Completed, Failed

from epigram.core.errors import RETRYABLE, EpigramError, TryAgainError
from epigram.process.outcome import Outcome
from epigram.runner.dvc import repair
from epigram.runner.dvc.process import KILLED, PROGRESS, ReproProcesses
from epigram.runner.prefect.artifacts import RETRYING, ProgressArtifact, StatusTable
from epigram.runner.scheduling.slots import Slots
from epigram.runner.service.prefect_adapter import is_unreachable

RETRIED_CODES = RETRYABLE | {KILLED}
RETRY_DELAYS = (5.0, 20.0)  # seconds before the second and the third try
PROGRESS_INTERVAL = 5.0  # seconds between two progress lines in the Prefect log and dashboard
MAX_LINE_LENGTH = 2_000  # characters

Log = logging.Logger | logging.LoggerAdapter[Any]


def prefect_state(outcome: Outcome) -> State[Outcome]:
    """Return the final state of the task run of a stage."""
    if outcome.state == "Failed":
        return Failed(message=outcome.summary, data=outcome)  # the log contains the rest
    if outcome.state == "Cancelled":
        return Cancelled(message=outcome.summary, data=outcome)
    return Completed(name=outcome.state, data=outcome)


class Runner:
    """Runner for the stages of one workspace, limited by `slots`; after `stop`, nothing runs and nothing starts.

    `on_end` is called with the name of each stage that has ended, before a stage that depends on it starts. A stage
    that prints nothing for `max_silence` seconds is terminated and tried again; None: never.
    """

    def __init__(
        self,
        root: Path,
        table: StatusTable,
        slots: Slots,
        on_end: Callable[[str], None] = lambda name: None,
        max_silence: float | None = None,
    ) -> None:
        self.root, self.table, self._on_end = root, table, on_end
        self.outcomes: dict[str, Outcome] = {}  # final outcomes, in order of completion
        self.slots = slots
        self._repair_lock = threading.Lock()
        self._processes = ReproProcesses(root, max_silence)

    def run(self, name: str, log: Log, report: Callable[[str], None] = lambda line: None) -> Outcome:
        """Run one stage to its end; send its output to `log` and the status table, and its progress also to `report`.

        If a cache file of its outputs is damaged, the stage runs again.
        """
        with self.slots.acquire(name) as environment:
            outcome = self._run(name, log, report, environment)
            with self._repair_lock:  # DVC's objects are not thread-safe, and DVC does not verify the files of its cache
                damaged = not outcome.code and repair.remove_damaged_outputs(self.root, [name])
            if damaged:
                log.warning("DVC's cache had a damaged file of %s; running the stage again", name)
                outcome = self._run(name, log, report, environment)
            if not outcome.code:
                self.slots.finish(name)
        return outcome

    def _run(self, name: str, log: Log, report: Callable[[str], None], environment: Mapping[str, str]) -> Outcome:
        def forward(lines: Iterable[str]) -> None:
            self.table.start(name)
            _forward_output(lines, log, lambda line: self.table.set_line(name, line), report)

        outcome = self._processes.run("--single-item", name, forward=forward, environment=environment)
        stopped = Outcome(stage=name, code=TryAgainError.code, summary="the run was stopped", state="Cancelled")
        return outcome or stopped

    def stop(self) -> None:
        """Terminate all running stages with all that they started, and start no new ones."""
        self._processes.stop()

    def report_end(self, name: str, outcome: Outcome) -> None:
        """Record the stage's final outcome."""
        self.outcomes[name] = outcome
        self.table.stop(name, outcome.state, outcome.summary)
        self._on_end(name)

    def record_state(self, name: str, state: State[Any]) -> None:
        """Record the state of a task that did not report here: it ran remotely, it crashed, or a dependency failed."""
        outcome = state.result(raise_on_failure=False) if state.is_final() else None
        if isinstance(outcome, Outcome):
            self.report_end(name, outcome)
        else:
            self.table.stop(name, str(state.name))
            if state.is_failed() or state.is_crashed():
                message = state.message or "the task failed without a message"
                self.outcomes[name] = Outcome.failed(name, EpigramError.code, message)


OpenRunner = Callable[[], AbstractContextManager[Runner]]


def stage_attempt(
    open_runner: OpenRunner, name: str, *, current: bool, delays: Sequence[float] = RETRY_DELAYS
) -> Callable[[], State[Any]]:
    """Return the function that a stage's task calls for each attempt, in the process that runs the stage.

    If the stage is `current` (no input has changed), the function does not run it and returns the state Cached. It
    announces a retry for each of `delays`, in seconds, after an attempt with a retryable exit code.
    """
    attempts = 0

    def stage() -> State[Any]:
        nonlocal attempts
        outcome = Outcome(stage=name, state="Cached")
        with open_runner() as runner:
            if not current:
                artifact = ProgressArtifact(name)
                outcome = runner.run(name, get_run_logger(), artifact.show)
                if not outcome.code:
                    artifact.finish()
            if _may_pass(outcome) and attempts < len(delays):
                delay = f"{delays[attempts]:g} s"
                line = f"exit code {outcome.code}; attempt {attempts + 2} of {len(delays) + 1} in {delay}"
                runner.table.stop(name, RETRYING, line)
            else:
                runner.report_end(name, outcome)
        attempts += 1
        return prefect_state(outcome)

    return stage


def task_options(name: str, delays: Sequence[float] = ()) -> dict[str, Any]:
    """Return the options of a Prefect task, which is not cached; it may be retried after each of `delays` (seconds)."""
    return {
        "name": name,
        "task_run_name": name,
        "cache_policy": NO_CACHE,
        "persist_result": False,
        "retries": len(delays),
        "retry_delay_seconds": list(delays),
        "retry_condition_fn": is_retryable,
    }


def is_retryable(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Return whether a task that ended with `state` is retried: a temporary exit code, or no answer of the server."""
    found = state.data if isinstance(state.data, Outcome) else state.result(raise_on_failure=False)
    if isinstance(found, Outcome | EpigramError):
        return _may_pass(found)
    return isinstance(found, Exception) and is_unreachable(found)


def _may_pass(found: Outcome | EpigramError) -> bool:
    """Return whether another attempt can succeed after a failed stage or an error."""
    return found.code in RETRIED_CODES and not (isinstance(found, Outcome) and found.state != "Failed")


def _forward_output(
    lines: Iterable[str], log: Log, show_line: Callable[[str], None], report: Callable[[str], None]
) -> None:
    """Pass each line on at once: to the table and the log; progress lines to the log and `report` only at intervals."""
    last_logged = -PROGRESS_INTERVAL
    for line in lines:
        text = line.removeprefix(PROGRESS)[:MAX_LINE_LENGTH]
        show_line(text)
        if line.startswith(PROGRESS):
            if time.monotonic() - last_logged < PROGRESS_INTERVAL:
                continue
            last_logged = time.monotonic()
            report(text)
        log.info("%s", text)
