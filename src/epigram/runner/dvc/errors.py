"""Errors of DVC as errors of epigram, by their class, and the exit codes of the commands of stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dvc.stage.run
from dvc.dependency.base import DependencyDoesNotExistError
from dvc.exceptions import DvcException, NotDvcRepoError, ReproductionError
from dvc.lock import LockError
from dvc.stage.exceptions import MissingDataSource, StageCmdFailedError

from epigram.core.errors import EpigramError, InputMissingError, TryAgainError
from epigram.process.exits import exit_code

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
        if exit_code(cause) != EpigramError.code:  # for example a full disk
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
