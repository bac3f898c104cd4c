"""Every error that a user can cause, with its exit code (sysexits.h).

The first line of a message says what, where and what to do; details follow on further lines.
Codes 69 and 75 mean that trying again can help; every other code is final.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import ClassVar, NoReturn, ParamSpec

from pithy.display import echo
from pithy.memory import used_up

P = ParamSpec("P")

RETRYABLE = frozenset({69, 75})

ERRNO = re.compile(r"\[Errno (\d+)\]|\(os error (\d+)\)")
# Memory ran out, as allocators, the loader, oneDNN, modules in C that cannot even make an error, threads and training
# say it.
NO_MEMORY = (
    "allocate memory",
    "bad_alloc",
    "failed to map segment",
    "could not create a primitive",
    "without exception set",
    "without setting an exception",
    "can't start new thread",
    "could not spawn threads",
    "memory ran out",
)
SQLITE = {"disk is full": errno.ENOSPC, "disk I/O error": errno.EIO}  # as the database says it
REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "check who may read and write there",
}


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


class Terminated(KeyboardInterrupt):
    """SIGTERM: what Ctrl-C passes by unhandled, this does too."""


PATHS = {errno.ENOENT: InputMissingError.code} | dict.fromkeys(
    (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.EEXIST), ParameterError.code
)  # a wrong path is no fault of the disk


def exit_code(error: BaseException) -> int:
    """Exit code of any exception: 130 for Ctrl-C, 64 and 66 for wrong paths, 74 disk, 75 no memory, 70 ours."""
    error = _named(error)
    if isinstance(error, PithyError):
        return error.code
    if isinstance(error, Terminated):
        return TryAgainError.code
    if isinstance(error, KeyboardInterrupt):
        return 130
    if is_out_of_memory(error):
        return TryAgainError.code
    number = _errno(error)
    if number is None:
        return PithyError.code
    return PATHS.get(number, DiskError.code)


def message(error: BaseException) -> str:
    """What the user reads about `error`: our own errors speak for themselves, others are named."""
    error = _named(error)
    if isinstance(error, PithyError):
        return str(error)
    if isinstance(error, Terminated):
        return "stopped by SIGTERM: run it again to go on"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if is_out_of_memory(error):
        return "memory ran out: free some and run it again"
    number = _errno(error)
    if number is None:
        return f"{type(error).__name__}: {error} (a fault of pithy; PITHY_DEBUG=1 shows where)"
    named = getattr(error, "filename2", None) or getattr(error, "filename", None)
    where = named or getattr(error, "__notes__", ["the disk"])[-1]
    return f"{os.strerror(number)}: {where}" + (f": {REMEDIES[number]}" if number in REMEDIES else "")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of a GPU or of the machine: libraries say it in words only, or as any other error."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's, not imported here
    return named or any(words in str(error) for words in NO_MEMORY) or used_up()


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust panicked, for which PyO3 has an exception that is no Exception."""
    return type(error).__name__ == "PanicException"


def _named(error: BaseException) -> BaseException:
    """ParameterError where a path or a name cannot be passed to the system, else `error`."""
    if isinstance(error, ValueError) and str(error).startswith("embedded null"):
        return ParameterError("a path or a name has a NUL character: remove it")
    return error


def _errno(error: BaseException) -> int | None:
    """The system's number of the fault behind `error`.

    Libraries written in Rust, and a copy of many files, give it in their text only.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = ERRNO.search(str(error))
    for words, number in SQLITE.items():
        if words in str(error):
            return number
    if found is None:
        return errno.EIO if isinstance(error, OSError) else None
    return int(found[1] or found[2])


def arguments(*names: str) -> list[str]:
    """The words of the command line, one for each of `names`. Raises ParameterError where there are more or fewer."""
    given = sys.argv[1:]
    if len(given) != len(names):
        raise ParameterError(f"usage: python -m pithy.stages.{Path(sys.argv[0]).stem} {' '.join(names)}")
    return given


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Let `handler` take the signals; in a thread other than the main one, where Python takes none, change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def interrupt(number: int, frame: FrameType | None = None) -> None:
    """A signal's handler: raises Terminated for SIGTERM, KeyboardInterrupt for Ctrl-C."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[Callable[[], int]]:
    """Let the first SIGTERM or Ctrl-C wait for the end of the block, where it is raised; a second one acts at once.

    The function that is given tells which one waits, 0 for none: who sees it saves what is to be saved and leaves.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if came:
            interrupt(number)
        came.append(number)

    with handling(note, signal.SIGTERM, signal.SIGINT):
        yield lambda: came[0] if came else 0
    if came:
        interrupt(came[0])


def say(error: BaseException) -> int:
    """Print the line about `error` on stderr; gives the exit code."""
    echo(f"error: {message(error)}", file=sys.stderr)
    return exit_code(error)


def leave(code: int) -> NoReturn:
    """End the process without what runs at an exit: with no memory left, that would end in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # said by `guarded`, where it is new
            stream.flush()
    os._exit(code)


def through(main: Callable[[], object]) -> NoReturn:
    """Run a program that is `guarded`, and end the process with it.

    Python's own end takes most of a second where PyTorch is loaded, and a signal in it would make a failure of success.
    """
    try:
        main()
    except SystemExit as end:
        leave(_number(end))
    leave(0)


def _number(end: SystemExit) -> int:
    return PithyError.code if isinstance(end.code, str) else end.code or 0


def started(app: Callable[[], object]) -> None:
    """Run a command; a command line that cannot be read is a bad parameter.

    What libraries do at an exit is done, as Prefect's last words; what Python does after it takes half a second.
    """
    codes = [PithyError.code]
    atexit.register(lambda: leave(codes[-1]))  # registered first, it runs last
    try:
        app()
        codes.append(0)
    except SystemExit as end:
        codes.append(ParameterError.code if end.code == 2 else _number(end))


def guarded(main: Callable[P, None]) -> Callable[P, None]:
    """Turn what `main` raises, and SIGTERM, into one clear message on stderr and the right exit code."""

    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with handling(interrupt, signal.SIGTERM):
                main(*args, **kwargs)
                sys.stdout.flush()  # a full disk shows here at the latest
        except SystemExit:
            raise
        except BaseException as error:  # a panic of a library written in Rust is no Exception
            if os.environ.get("PITHY_DEBUG") == "1":
                raise
            code = say(error)
            if is_out_of_memory(error):
                leave(code)
            sys.exit(code)

    return run
