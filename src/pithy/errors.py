"""Every error that a user can cause, with its exit code (sysexits.h).

The first line of a message says what, where and what to do; details follow on further lines.
Codes 69 and 75 mean that trying again can help; every other code is final.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ClassVar, ParamSpec

P = ParamSpec("P")

RETRYABLE = frozenset({69, 75})


class PithyError(Exception):
    """An error with an exit code; `str(error)` is what the user reads."""

    code: ClassVar[int] = 70


class ParameterError(PithyError):
    """A value of params.yaml or of the command line is not allowed (the key, what it was, what is allowed)."""

    code = 64


class DataError(PithyError):
    """The data break a rule (file, row, column, value, rule)."""

    code = 65


class InputMissingError(PithyError):
    """A file that is needed is not there."""

    code = 66


class SourceUnavailableError(PithyError):
    """A data source cannot be reached; a later try may work."""

    code = 69


class DiskError(PithyError):
    """The disk is full, read-only or broken."""

    code = 74


class TryAgainError(PithyError):
    """A lock is busy, or the work was interrupted with its state saved."""

    code = 75


def exit_code(error: BaseException) -> int:
    """Exit code of any exception: 130 for Ctrl-C, 74 for a disk fault, 70 where the fault is ours."""
    if isinstance(error, PithyError):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return 130
    return DiskError.code if isinstance(error, OSError) else PithyError.code


def message(error: BaseException) -> str:
    """What the user reads about `error`: our own errors speak for themselves, others are named."""
    if isinstance(error, PithyError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or 'the disk'}"
    return f"{type(error).__name__}: {error} (a fault of pithy; PITHY_DEBUG=1 shows where)"


def guarded(main: Callable[P, None]) -> Callable[P, None]:
    """Turn what `main` raises into one clear message on stderr and the right exit code."""

    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            main(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get("PITHY_DEBUG") == "1":
                raise
            print(f"error: {message(error)}", file=sys.stderr)
            sys.exit(exit_code(error))

    return run
