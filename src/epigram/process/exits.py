"""Exit codes and messages of errors, and the decorator that reports an error of a command or a stage once."""

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
from typing import NoReturn, ParamSpec

from epigram.core.errors import (
    DiskError,
    EpigramError,
    InputMissingError,
    ParameterError,
    TryAgainError,
    is_out_of_memory,
)
from epigram.process.display import discard_output, echo, is_output_closed, printable
from epigram.process.outcome import Outcome, current_stage
from epigram.process.signals import ENDINGS, Terminated, raise_on_signals, raised, resend_swallowed
from epigram.process.startup import open_streams

P = ParamSpec("P")

ERRNO_PATTERN = re.compile(r"\[Errno (\d+)\]|\(os error (\d+)\)")
SQLITE_ERRNOS = {"disk is full": errno.ENOSPC, "disk I/O error": errno.EIO}  # messages of SQLite
CLOSED_OUTPUT = 141  # 128 + SIGPIPE, a signal that Windows lacks
REMEDIES = {
    errno.ENOSPC: "free disk space and rerun",
    errno.EROFS: "choose a writable folder",
    errno.EACCES: "check the read and write permissions",
}
PATH_ERROR_CODES = {errno.ENOENT: InputMissingError.code} | dict.fromkeys(
    (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.EEXIST), ParameterError.code
)  # a wrong path is not a disk error


def exit_code(error: BaseException) -> int:
    """Return the exit code of any exception.

    130 for Ctrl-C, 64 or 66 for wrong paths, 74 for disk errors, 75 for SIGTERM and out of memory, 70 for internal
    errors.
    """
    return _describe(error)[0]


def message(error: BaseException) -> str:
    """Return the message for the user: the text of an EpigramError, otherwise a description of the exception."""
    return _describe(error)[1]


def _describe(error: BaseException) -> tuple[int, str]:
    error = _translate(error)
    if isinstance(error, EpigramError):
        return error.code, str(error)
    if isinstance(error, KeyboardInterrupt):
        return ENDINGS[signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT]
    if is_out_of_memory(error):
        return TryAgainError.code, "out of memory; free memory and rerun"
    number = _errno(error)
    if number is None:
        text = f"internal error: {type(error).__name__}: {error}; set EPIGRAM_DEBUG=1 for a traceback"
        return EpigramError.code, text
    path = getattr(error, "filename2", None) or getattr(error, "filename", None)
    where = path or getattr(error, "__notes__", ["the disk"])[-1]
    remedy = f": {REMEDIES[number]}" if number in REMEDIES else ""
    return PATH_ERROR_CODES.get(number, DiskError.code), f"{os.strerror(number)}: {where}{remedy}"


def _translate(error: BaseException) -> BaseException:
    """Return a ParameterError for a NUL character, otherwise `error`."""
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


def print_error(error: BaseException) -> int:
    """Print the message of `error` on stderr, write it as the outcome of the stage, and return the exit code."""
    text, code = printable(message(error)), exit_code(error)
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
    open_streams()
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
    open_streams()
    codes = [EpigramError.code]
    atexit.register(lambda: exit_now(codes[-1]))  # registered first, it runs last
    try:
        app()
        codes.append(0)
    except SystemExit as end:
        codes.append(ParameterError.code if end.code == 2 else _exit_status(end))


def handle_errors(main: Callable[P, None]) -> Callable[P, None]:
    """Decorate `main` so that an exception or a signal becomes one error message on stderr and the right exit code."""

    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raised.clear()
        try:
            with resend_swallowed(), raise_on_signals():
                main(*args, **kwargs)
                sys.stdout.flush()  # a full disk raises here at the latest
        except SystemExit:
            raise
        except BaseException as error:  # a panic of a Rust library is not an Exception
            if os.environ.get("EPIGRAM_DEBUG") == "1":
                raise
            if isinstance(error, BrokenPipeError) and is_output_closed():  # as in `epigram systems | head`
                discard_output()
                sys.exit(CLOSED_OUTPUT)
            # Python wraps what a handler raises while a class is created; C code, as in NumPy's import, discards it
            code = print_error(raised[-1] if raised and isinstance(error, Exception) else error)
            if is_out_of_memory(error):
                exit_now(code)
            sys.exit(code)

    return run
