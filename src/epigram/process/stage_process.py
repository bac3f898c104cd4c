"""Process of a stage: its `main`, under DVC with a supervisor that reports how the stage ended when it cannot itself.

A library that is out of memory may abort, exit with its own exit code, or retry the allocation forever; the kernel may
kill the process. In all these cases DVC reports only a number. The supervisor is forked before any library is imported,
so it takes 10 MB, most of them shared, and no time. Therefore the modules of stages import libraries in functions.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from epigram.core.errors import ParameterError
from epigram.core.machine import has_limit, is_near_limit
from epigram.process import supervisor
from epigram.process.display import echo
from epigram.process.exits import exit_code, exit_now, message, run_and_exit
from epigram.process.outcome import OUTCOME_FILE, Outcome, current_stage
from epigram.process.signals import Terminated
from epigram.process.startup import limit_library_threads, open_streams

STATE = Path(".epigram/state")  # progress of interrupted stages
SPEED = Path("data/speed")  # measured times; no DVC output, because dvc.lock is the same on every machine

CRASH_SIGNALS = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGTRAP}
LIBRARY_EXIT_CODES = {1, 127}  # exit codes of libraries; epigram uses neither
PARENT = "EPIGRAM_PARENT"  # variable with the id of the process that has started this one to train with others

MIN_PAGE_FAULTS = 100  # page faults between two checks; a process with fewer gets no memory
MIN_KERNEL_SHARE = 1 / 4  # share of CPU time in an allocation loop; the machine may be busy with other processes
MIN_KERNEL_TIME = 1 / 50  # share of CHECK_INTERVAL; less is not significant


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
    sys.unraisablehook = _print_unraisable
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
    memory = _MemoryCheck(child)
    code, line = _describe_exit(supervisor.wait(child, lambda number: os.kill(child, number), memory.check), memory)
    if line:
        echo(f"error: {line}", file=sys.stderr)
        Outcome.failed(current_stage(), code, line).write()
    exit_now(code)


def _has_lost_parent() -> bool:
    """Return whether DVC, or the launcher of this process, has ended."""
    if parent := os.environ.get(PARENT):
        return os.getppid() != int(parent)
    return os.getppid() == 1 and b"dvc" not in Path("/proc/1/cmdline").read_bytes()


class _MemoryCheck:
    """Monitor of the memory of a process.

    It notes whether the process has an address space limit, and kills a process that retries an allocation forever.
    """

    def __init__(self, process: int) -> None:
        self.limited = False
        self.exhausted = False
        self._process = process
        self._usage = (0, 0.0, 0.0)

    def check(self, idle: bool) -> None:
        """Note whether there is a limit. If `idle`, kill a process that does nothing but ask for memory."""
        self.limited = has_limit(self._process)
        if not idle or not is_near_limit(self._process):
            return
        previous, self._usage = self._usage, _read_usage(self._process)
        pages, kernel, user = (now - before for now, before in zip(self._usage, previous, strict=True))
        busy = kernel > max(MIN_KERNEL_SHARE * (kernel + user), MIN_KERNEL_TIME * supervisor.CHECK_INTERVAL)
        if pages < MIN_PAGE_FAULTS and busy:
            self.exhausted = True
            os.kill(self._process, signal.SIGKILL)


def _read_usage(process: int) -> tuple[int, float, float]:
    """Return the number of page faults of a process, and its CPU seconds in the kernel and in user mode."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    return int(fields[7]) + int(fields[9]), int(fields[12]) / tick, int(fields[11]) / tick


def _describe_exit(code: int, memory: _MemoryCheck) -> tuple[int, str]:
    """Return the exit code for this process, and the message to print, empty if the child ended by itself."""
    if memory.exhausted or (memory.limited and code in CRASH_SIGNALS | LIBRARY_EXIT_CODES):
        return exit_code(MemoryError()), message(MemoryError())
    if code == -signal.SIGTERM:
        return exit_code(Terminated()), message(Terminated())
    if code == -signal.SIGKILL:
        return 128 - code, "killed by SIGKILL, probably out of memory; free memory and rerun"
    if code < 0:
        return 128 - code, f"terminated by signal {-code} ({signal.strsignal(-code)}) in a library or the system; rerun"
    return code, ""


def _print_unraisable(details: sys.UnraisableHookArgs) -> None:
    """Print the traceback of an exception that Python cannot raise, unless the process is out of memory."""
    with suppress(MemoryError):
        if not is_near_limit():
            sys.__unraisablehook__(details)
