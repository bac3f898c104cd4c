"""Process of a stage: its `main`, under DVC with a supervisor that reports how the stage ended when it cannot itself.

A library may abort, and the kernel may kill the process, when memory runs out. In both cases DVC reports only a number.
The supervisor is forked before any library is imported, so it takes 10 MB, most of them shared, and no time. Therefore
the modules of stages import libraries in functions.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from epigram.core.errors import ParameterError
from epigram.process import supervisor
from epigram.process.display import echo
from epigram.process.exits import exit_code, exit_now, message, run_and_exit
from epigram.process.outcome import OUTCOME_FILE, Outcome, current_stage
from epigram.process.signals import Terminated
from epigram.process.startup import limit_library_threads, open_streams

STATE = Path(".epigram/state")  # progress of interrupted stages
SPEED = Path("data/speed")  # measured times; no DVC output, because dvc.lock is the same on every machine

PARENT = "EPIGRAM_PARENT"  # variable with the id of the process that has started this one to train with others


def arguments(*names: str) -> list[str]:
    """Return the command-line arguments, one for each of `names`. Raises ParameterError if their number differs."""
    values = sys.argv[1:]
    if len(values) != len(names):
        raise ParameterError(f"usage: python -m epigram.stages.{Path(sys.argv[0]).stem} {' '.join(names)}")
    return values


def run_stage(main: Callable[[], object]) -> NoReturn:
    """Run a stage's `main`, which is decorated with `handle_errors`, as this process."""
    open_streams()
    if PARENT in os.environ:  # one of several processes, each of which has an outcome of its own
        os.environ[OUTCOME_FILE] = str(Path(os.environ[OUTCOME_FILE]) / os.environ["RANK"])
    # A user may start a stage with nohup, so it outlives the shell; under DVC or a launcher it ends with its parent.
    if sys.platform == "linux" and (current_stage() or PARENT in os.environ):
        start_supervisor()
    limit_library_threads()
    run_and_exit(main)


def start_supervisor() -> None:
    """Fork: the child returns and runs the stage; this process waits, reports how it ended, and exits with its code."""
    supervisor.signal_on_parent_exit(signal.SIGTERM)
    child = supervisor.fork()
    if child:
        _supervise(child)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # `stty tostop` would stop a background process that prints
    supervisor.unblock_signals()


def _supervise(child: int) -> NoReturn:
    if _has_lost_parent():  # the parent ended before the parent-death signal was set
        os.kill(child, signal.SIGTERM)
    code, line = _describe_exit(supervisor.wait(child, lambda number: os.kill(child, number)))
    if line:
        echo(f"error: {line}", file=sys.stderr)
        Outcome.failed(current_stage(), code, line).write()
    exit_now(code)


def _has_lost_parent() -> bool:
    """Return whether DVC, or the launcher of this process, has ended."""
    if parent := os.environ.get(PARENT):
        return os.getppid() != int(parent)
    return os.getppid() == 1 and b"dvc" not in Path("/proc/1/cmdline").read_bytes()


def _describe_exit(code: int) -> tuple[int, str]:
    """Return the exit code for this process, and the message to print, empty if the child ended by itself."""
    if code == -signal.SIGTERM:
        return exit_code(Terminated()), message(Terminated())
    if code == -signal.SIGKILL:
        return 128 - code, "killed by SIGKILL, probably out of memory; free memory and rerun"
    if code < 0:
        return 128 - code, f"terminated by signal {-code} ({signal.strsignal(-code)}) in a library or the system; rerun"
    return code, ""
