"""One stage with `dvc repro`, and DVC's errors as errors of epigram.

python -P src/epigram/runner/dvc/repro.py CODE REQUESTS

CODE is the PYTHONPATH of the stages. This process itself imports the code of the runner that started it, not the code
of the workspace, which may be an older revision. REQUESTS is a file descriptor with a line for each `dvc repro`: its
arguments ([--single-item] [--force] TARGET), the file of its outcome and its environment variables, as JSON. The
process ends with the first request that fails or leaves another process running; the supervisor then kills all
remaining processes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dvc.stage.run
from dvc.dependency.base import DependencyDoesNotExistError
from dvc.exceptions import DvcException, NotDvcRepoError, ReproductionError
from dvc.lock import LockError
from dvc.stage.exceptions import MissingDataSource, StageCmdFailedError

from epigram.core.errors import EpigramError, InputMissingError, TryAgainError
from epigram.process.exits import exit_code, handle_errors, run_and_exit
from epigram.process.outcome import OUTCOME_FILE, Outcome
from epigram.runner.dvc import replaced_methods
from epigram.runner.dvc.adapter import ignore_damaged_entries, open_repo, record_restored, retry_on_conflict
from epigram.runner.dvc.process import END

KINDS: dict[type[DvcException], type[EpigramError]] = {
    LockError: TryAgainError,
    DependencyDoesNotExistError: InputMissingError,
    MissingDataSource: InputMissingError,
    NotDvcRepoError: InputMissingError,
}


class CommandFailedError(StageCmdFailedError):  # type: ignore[misc]  # DVC has no types
    """Failed command of a stage, with its exit code, which DVC's own class does not keep; 128 + N for signal N."""

    def __init__(self, command: Any, status: int) -> None:
        super().__init__(command, status)
        self.code = status if status >= 0 else 128 - status


def install() -> None:
    """Let DVC raise CommandFailedError in this process."""
    dvc.stage.run.StageCmdFailedError = CommandFailedError


def translate(error: DvcException) -> BaseException:
    """Return the error to report: an EpigramError, or the error of the system or of a library that DVC has wrapped."""
    causes = list(_causes(error))
    text = ": ".join(filter(None, map(str, causes))) or str(error)
    for cause in causes:
        for kind, reported in KINDS.items():
            if isinstance(cause, kind):
                return reported(text)
        if exit_code(cause) != EpigramError.code:  # such as a full disk
            return cause
    return EpigramError(text)


def command_exit_code(error: DvcException) -> int | None:
    """Return the exit code of the stage's command; None if DVC failed, not the command."""
    return next((cause.code for cause in _causes(error) if isinstance(cause, CommandFailedError)), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and what caused it, without DVC's remark that the stage could not be reproduced."""
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, ReproductionError):
            yield cause
        cause = cause.__cause__


@handle_errors
def main() -> None:
    """Bring each target up to date.

    If a stage's command fails, exit with its exit code and leave its own outcome as it is.
    """
    code_path, requests = sys.argv[1:]
    os.environ["PYTHONPATH"] = code_path
    logging.getLogger("dvc").setLevel(logging.WARNING)  # only the stage's own lines are shown
    replaced_methods.write_blocks_only()
    replaced_methods.check_inputs_again()
    install()
    with os.fdopen(int(requests), encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            os.environ.update(request["environment"])
            os.environ[OUTCOME_FILE] = request["outcome"]
            run(request["arguments"])
            if not is_last_of_group():
                return
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(sys.stdout.fileno(), f"\n{END}{request['outcome']}\n".encode())  # a stage may end within a line


def run(arguments: list[str]) -> None:
    """Bring a target up to date and write the outcome."""
    *options, target = arguments
    try:
        state = reproduce(target, single_item="--single-item" in options, force="--force" in options)
    except DvcException as error:
        if code := command_exit_code(error):
            sys.exit(code)
        raise translate(error) from error
    Outcome(stage=target, state=state).write()


def is_last_of_group() -> bool:
    """Return whether the stage's processes have ended, which are in this process's group; False without /proc."""
    running = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, _, group, *_ = file.read_text(encoding="utf-8").rpartition(")")[2].split()
            running += int(group) == os.getpgrp() and state != "Z"
    return running == 1


def reproduce(target: str, *, single_item: bool, force: bool) -> str:
    """Run `dvc repro` and return Cached, Restored or Completed. Waits for DVC's lock."""
    with open_repo(Path.cwd()) as repo:
        retry_on_conflict(repo)
        ignore_damaged_entries(repo)
        restored = record_restored(repo)
        changed = repo.reproduce([target], single_item=single_item, force=force)
    if not changed:
        return "Cached"
    return "Restored" if len(restored) == len(changed) else "Completed"


if __name__ == "__main__":
    run_and_exit(main)
