"""Errors that users can cause, with their exit codes (sysexits.h).

The first line of a message states what is wrong, where, and what to do; details follow on further lines. Codes 69 and
75 mean that a retry can succeed; all other codes are final.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import NoReturn, ParamSpec

from epigram.core.display import discard_output, echo, is_output_closed
from epigram.core.memory_limit import is_near_limit
from epigram.core.outcome import Outcome, current_stage
from epigram.core.signals import ENDINGS, Terminated, handle_signals, raise_interrupt, resend_swallowed

P = ParamSpec("P")

RETRYABLE = frozenset({69, 75})

ERRNO_PATTERN = re.compile(r"\[Errno (\d+)\]|\(os error (\d+)\)")
# Parts of out-of-memory messages: of allocators, the dynamic loader, oneDNN (whose "primitive descriptor" is instead a
# kernel that the processor lacks), C modules that cannot allocate an exception, threads, and the training code.
OUT_OF_MEMORY_MESSAGE = re.compile(
    r"allocate memory|bad_alloc|failed to map segment|could not create a primitive(?! descriptor)"
    r"|without exception set|without setting an exception|can't start new thread|could not spawn threads|out of memory"
)
SQLITE_ERRNOS = {"disk is full": errno.ENOSPC, "disk I/O error": errno.EIO}  # messages of SQLite
REMEDIES = {
    errno.ENOSPC: "free disk space and rerun",
    errno.EROFS: "choose a writable folder",
    errno.EACCES: "check the read and write permissions",
}


class EpigramError(Exception):
    """Base class of errors with an exit code; `str(error)` is the message for the user."""

    code: int = 70


class ParameterError(EpigramError):
    """Invalid value in params.yaml or on the command line; the message has the key, the value and what is expected."""

    code = 64


class DataError(EpigramError):
    """Data that violate a rule; the message has the file, row, column, value and rule."""

    code = 65


class InputMissingError(EpigramError):
    """Missing input file."""

    code = 66


class SourceUnavailableError(EpigramError):
    """Unreachable data source; a retry may succeed."""

    code = 69


class DiskError(EpigramError):
    """Full, read-only or damaged disk."""

    code = 74


class TryAgainError(EpigramError):
    """Busy lock, or interrupted work whose state is saved."""

    code = 75


PATH_ERROR_CODES = {errno.ENOENT: InputMissingError.code} | dict.fromkeys(
    (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.EEXIST), ParameterError.code
)  # a wrong path is not a disk error


def exit_code(error: BaseException) -> int:
    """Return the exit code of any exception.

    130 for Ctrl-C, 64 or 66 for wrong paths, 74 for disk errors, 75 for SIGTERM and out of memory, 70 for internal
    errors.
    """
    error = _translate(error)
    if isinstance(error, EpigramError):
        return error.code
    if isinstance(error, Terminated):
        return TryAgainError.code
    if isinstance(error, KeyboardInterrupt):
        return ENDINGS[signal.SIGINT][0]
    if is_out_of_memory(error):
        return TryAgainError.code
    number = _errno(error)
    if number is None:
        return EpigramError.code
    return PATH_ERROR_CODES.get(number, DiskError.code)


def message(error: BaseException) -> str:
    """Return the message for the user: the text of an EpigramError, otherwise a description of the exception."""
    error = _translate(error)
    if isinstance(error, EpigramError):
        return str(error)
    if isinstance(error, Terminated):
        return ENDINGS[signal.SIGTERM][1]
    if isinstance(error, KeyboardInterrupt):
        return ENDINGS[signal.SIGINT][1]
    if is_out_of_memory(error):
        return "out of memory; free memory and rerun"
    number = _errno(error)
    if number is None:
        return f"internal error: {type(error).__name__}: {error}; set EPIGRAM_DEBUG=1 for a traceback"
    path = getattr(error, "filename2", None) or getattr(error, "filename", None)
    where = path or getattr(error, "__notes__", ["the disk"])[-1]
    return f"{os.strerror(number)}: {where}" + (f": {REMEDIES[number]}" if number in REMEDIES else "")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` means that a GPU or the machine is out of memory.

    Libraries report it with a class of their own, only in the message, or as any other error near the memory limit.
    """
    by_class = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's is not imported
    return by_class or bool(OUT_OF_MEMORY_MESSAGE.search(str(error))) or is_near_limit()


def is_panic(error: BaseException) -> bool:
    """Return whether a Rust library panicked; PyO3 raises a class that is not derived from Exception."""
    return type(error).__name__ == "PanicException"


def _translate(error: BaseException) -> BaseException:
    """Return the error to report: a ParameterError for a NUL character, the signal that Python has wrapped, or `error`.

    Python wraps what a signal handler raises while a class is created, for example during an import.
    """
    if isinstance(error.__cause__, KeyboardInterrupt):
        return error.__cause__
    if isinstance(error, ValueError) and str(error).startswith("embedded null"):
        return ParameterError("a path or a name contains a NUL character: remove it")
    return error


def _errno(error: BaseException) -> int | None:
    """Return the errno of `error`; Rust libraries and shutil.copytree only have it in the message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    for part, number in SQLITE_ERRNOS.items():
        if part in str(error):
            return number
    match = ERRNO_PATTERN.search(str(error))
    if match is None:
        return errno.EIO if isinstance(error, OSError) else None
    return int(match[1] or match[2])


def arguments(*names: str) -> list[str]:
    """Return the command-line arguments, one for each of `names`. Raises ParameterError if their number differs."""
    values = sys.argv[1:]
    if len(values) != len(names):
        raise ParameterError(f"usage: python -m epigram.stages.{Path(sys.argv[0]).stem} {' '.join(names)}")
    return values


def print_error(error: BaseException) -> int:
    """Print the message of `error` on stderr, write it as the outcome of the stage, and return the exit code."""
    text, code = message(error), exit_code(error)
    echo(f"error: {text}", file=sys.stderr)
    Outcome.failed(current_stage(), code, text).write()
    return code


def exit_now(code: int) -> NoReturn:
    """Exit without running exit handlers, which would end in a traceback when no memory is left."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # `handle_errors` has already reported it
            stream.flush()
    os._exit(code)


def run_and_exit(main: Callable[[], object]) -> NoReturn:
    """Run a program decorated with `handle_errors`, and end the process without Python's shutdown.

    With PyTorch loaded, the shutdown takes most of a second, and a signal during it would turn success into failure.
    """
    try:
        main()
    except SystemExit as end:
        exit_now(_exit_status(end))
    exit_now(0)


def _exit_status(end: SystemExit) -> int:
    return EpigramError.code if isinstance(end.code, str) else end.code or 0


def run_typer(app: Callable[[], object]) -> None:
    """Run a typer command; an invalid command line gets the exit code of ParameterError.

    The exit handlers of libraries run, for example Prefect's last log messages. The rest of Python's shutdown, which
    takes half a second, is skipped.
    """
    codes = [EpigramError.code]
    atexit.register(lambda: exit_now(codes[-1]))  # registered first, it runs last
    try:
        app()
        codes.append(0)
    except SystemExit as end:
        codes.append(ParameterError.code if end.code == 2 else _exit_status(end))


def handle_errors(main: Callable[P, None]) -> Callable[P, None]:
    """Decorate `main` so that an exception or SIGTERM becomes one error message on stderr and the right exit code."""

    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with resend_swallowed(), handle_signals(raise_interrupt, signal.SIGTERM):
                main(*args, **kwargs)
                sys.stdout.flush()  # a full disk raises here at the latest
        except SystemExit:
            raise
        except BaseException as error:  # a panic of a Rust library is not an Exception
            if os.environ.get("EPIGRAM_DEBUG") == "1":
                raise
            if isinstance(error, BrokenPipeError) and is_output_closed():  # as in `epigram systems | head`
                discard_output()
                sys.exit(128 + signal.SIGPIPE)
            code = print_error(error)
            if is_out_of_memory(error):
                exit_now(code)
            sys.exit(code)

    return run
