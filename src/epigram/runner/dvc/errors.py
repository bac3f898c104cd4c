"""Errors of DVC as errors of epigram, by their class."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dvc.dependency.base import DependencyDoesNotExistError
from dvc.exceptions import DvcException, NotDvcRepoError, ReproductionError
from dvc.lock import LockError
from dvc.stage.exceptions import MissingDataSource, StageCmdFailedError

from epigram.core.errors import EpigramError, InputMissingError, TryAgainError, exit_code

KINDS: dict[type[DvcException], type[EpigramError]] = {
    LockError: TryAgainError,
    DependencyDoesNotExistError: InputMissingError,
    MissingDataSource: InputMissingError,
    NotDvcRepoError: InputMissingError,
}
# The exit code of a stage's command is only in the text of DVC's exception.
COMMAND_EXIT = re.compile(r", exited with (-?\d+)$")


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
    """Return the exit code of the stage's command, 128 + N for signal N; None if DVC failed, not the command."""
    for cause in _causes(error):
        if isinstance(cause, StageCmdFailedError) and (found := COMMAND_EXIT.search(str(cause))):
            code = int(found[1])
            return code if code >= 0 else 128 - code
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and what caused it, without DVC's remark that the stage could not be reproduced."""
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, ReproductionError):
            yield cause
        cause = cause.__cause__
