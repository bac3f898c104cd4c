"""The small process that stands between DVC and a stage, and says how it ended where the stage no longer can.

A library that finds no memory may abort, leave with a code of its own, or ask for it without end; the kernel kills. Of
all that DVC tells a number. The parent is forked before a library is imported: 10 MB, most of them shared, and no time.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from pithy.display import echo
from pithy.errors import Terminated, TryAgainError, exit_code, leave, message
from pithy.memory import limited, used_up

PARENT_DIES = 1  # PR_SET_PDEATHSIG of Linux's prctl
HANDED_ON = {signal.SIGTERM, signal.SIGINT}
BROKEN = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGTRAP}
LEFT = {1, 127}  # codes with which libraries end a process; none is ours

LOOK = 10.0  # seconds between two looks at whether the stage asks for memory without end
FAULTS = 100  # pages between two looks: with fewer it gets no memory
BUSY = 1 / 4  # of its processor time in the kernel, and it asks; the machine may be busy with others
LEAST = 1 / 50  # of the time on a processor; less tells nothing


def stand_between() -> None:
    """Go on in a child, which dies with its parent; in a group of its own, so that one signal reaches it once."""
    _when_parent_ends(signal.SIGTERM)
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*HANDED_ON, signal.SIGCHLD})
    if child := os.fork():
        code, line = _said(*_wait(child))
        if line:
            echo(f"error: {line}", file=sys.stderr)
        leave(code)
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a terminal may stop who writes from behind (`stty tostop`)
    _when_parent_ends(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(TryAgainError.code)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _when_parent_ends(number: signal.Signals) -> None:
    ctypes.CDLL(None).prctl(PARENT_DIES, int(number))


def _wait(child: int) -> tuple[int, bool]:
    """The exit code of the child, negative for a signal, and whether its memory was short; signals are handed on."""
    if os.getppid() == 1 and b"dvc" not in Path("/proc/1/cmdline").read_bytes():
        os.kill(child, signal.SIGTERM)  # DVC was killed before
    short, seen = False, (0, 0.0, 0.0)
    while True:
        came = signal.sigtimedwait({*HANDED_ON, signal.SIGCHLD}, LOOK)
        if came and came.si_signo in HANDED_ON:
            os.kill(child, came.si_signo)
        elif came is None and used_up(child):
            before, seen = seen, _asked(child)
            pages, kernel, user = (now - then for now, then in zip(seen, before, strict=True))
            if pages < FAULTS and kernel > max(BUSY * (kernel + user), LEAST * LOOK):
                short = True
                os.kill(child, signal.SIGKILL)
        scarce = limited(child)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code, short or (scarce and code in BROKEN | LEFT)


def _asked(child: int) -> tuple[int, float, float]:
    """Pages that the child was given so far, and its processor seconds in the kernel and outside."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    return int(fields[7]) + int(fields[9]), int(fields[12]) / tick, int(fields[11]) / tick


def _said(code: int, short: bool) -> tuple[int, str]:
    """The exit code to leave with, and the line to say: none where the child has ended by itself."""
    if short:
        return exit_code(MemoryError()), message(MemoryError())
    if code == -signal.SIGTERM:
        return exit_code(Terminated()), message(Terminated())
    if code == -signal.SIGKILL:
        return 128 - code, "killed, most often because memory ran out: free some and run it again"
    if code < 0:
        return (
            128 - code,
            f"ended by signal {-code} ({signal.strsignal(-code)}), by a library or the machine: run it again",
        )
    return code, ""
