"""Tests of the outcome of `dvc repro`: DVC's errors by their class, and files that contradict the exit code."""

from __future__ import annotations

import errno
from collections import deque
from pathlib import Path

import pytest
from dvc.dependency.base import DependencyDoesNotExistError
from dvc.exceptions import DvcException, NotDvcRepoError, ReproductionError
from dvc.lock import LockError
from dvc.output import OutputDoesNotExistError
from dvc.stage.exceptions import MissingDataSource

from epigram.process.exits import exit_code, message
from epigram.process.outcome import OUTCOME_FILE, Outcome
from epigram.runner.dvc.process import outcome_of
from epigram.runner.dvc.repro import CommandFailedError, command_exit_code, translate


def wrapped(cause: BaseException) -> DvcException:
    """Return the exception that DVC raises if `cause` ends a stage."""
    error = ReproductionError("failed to reproduce 'fit'")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "code", "said"),
    [
        (LockError("'out' is busy"), 75, "'out' is busy"),
        (DependencyDoesNotExistError("data/raw"), 66, "dependency 'data/raw' does not exist"),
        (MissingDataSource(["a.csv"]), 66, "missing data 'source': a.csv"),
        (NotDvcRepoError("no repository"), 66, "no repository"),
        (OutputDoesNotExistError("out"), 70, "output 'out' does not exist"),
        (DvcException("[Errno 28] No space left on device: 'x'"), 74, "No space left on device: the disk: free disk"),
        (OSError(errno.ENOSPC, "full", "x.npy"), 74, "No space left on device: x.npy: free disk space"),
        (FileNotFoundError(errno.ENOENT, "missing", "a.csv"), 66, "No such file or directory: a.csv"),
        (ValueError("odd"), 70, "odd"),
    ],
)
def test_an_error_of_dvc_has_the_exit_code_of_its_class(cause: BaseException, code: int, said: str) -> None:
    error = translate(wrapped(cause))
    assert (exit_code(error), command_exit_code(wrapped(cause))) == (code, None)
    assert message(error).startswith(said)


def test_both_lines_of_an_error_and_its_cause_are_kept() -> None:
    error = DvcException("dvc.lock is invalid")
    error.__cause__ = ValueError("line 3")
    assert message(translate(wrapped(error))) == "dvc.lock is invalid: line 3"


@pytest.mark.parametrize(("status", "code"), [(65, 65), (1, 1), (-9, 137), (-11, 139), (137, 137)])
def test_the_exit_code_of_a_command(status: int, code: int) -> None:
    assert command_exit_code(wrapped(CommandFailedError("python step.py, exited with 3", status))) == code


@pytest.mark.parametrize(
    ("written", "code", "expected"),
    [
        (Outcome(stage="", state="Restored"), 0, Outcome(stage="fit", state="Restored")),
        (Outcome.failed("fit", 65, "wrong"), 65, Outcome.failed("fit", 65, "wrong")),
        (Outcome.failed("cut", 65, "wrong"), 0, Outcome(stage="fit")),  # the command ignored the failure
        (Outcome(stage="fit"), 137, Outcome.failed("fit", 137, "killed, probably because the machine is out of memory; "
                                                               "free memory and rerun\nlast line")),
        (None, 134, Outcome.failed("fit", 134, "terminated by signal 6 (Aborted)\nlast line")),
        (None, 3, Outcome.failed("fit", 3, "exit code 3\nlast line")),
        (None, 0, Outcome(stage="fit")),
    ],
)  # fmt: skip
def test_a_file_counts_only_if_it_agrees_with_the_exit_code(
    written: Outcome | None, code: int, expected: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OUTCOME_FILE, str(tmp_path / "outcome.json"))
    if written is not None:
        written.write()
    assert outcome_of("fit", code, tmp_path / "outcome.json", deque(["last line"])) == expected
