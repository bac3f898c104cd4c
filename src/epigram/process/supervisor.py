"""Supervisor: a small process that starts a child, passes signals on to it, and outlives it.

The child ends when its supervisor ends, in whatever way, and gets each signal once. Under DVC, a stage's process forks:
the parent becomes the supervisor and the child runs the stage (`stage_process`). For any other command, the runner
starts this file (`runner.child_process`), which imports no project code, so it starts in a few milliseconds:

python -I -S src/epigram/process/supervisor.py COMMAND …
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

PR_SET_PDEATHSIG = 1  # PR_SET_PDEATHSIG of Linux's prctl
FORWARDED_SIGNALS = {signal.SIGTERM, signal.SIGINT}
AWAITED_SIGNALS = {*FORWARDED_SIGNALS, signal.SIGCHLD}
# Signals that a shell's background job, or Python, ignores; a new program would inherit that.
RESET_SIGNALS = signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ
GRACE_PERIOD = 10.0  # seconds between the interrupt and the kill


def fork() -> int:
    """Fork; return the child's process id in this process, which must then call `wait`, and 0 in the child.

    The child must call `unblock_signals` when it is ready for them. It has its own process group, so that it receives
    each signal once, and is killed when this process ends.
    """
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED_SIGNALS)
    if child := os.fork():
        with contextlib.suppress(OSError):  # the child has done it, or has ended
            os.setpgid(child, child)  # both do it: a signal to the group may come before the child runs
        return child
    os.setpgid(0, 0)
    signal_on_parent_exit(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(os.EX_TEMPFAIL)  # the supervisor ended before the kernel could be asked
    return 0


def unblock_signals() -> None:
    """Unblock the signals that `fork` has blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED_SIGNALS)


def signal_on_parent_exit(number: signal.Signals) -> None:
    """Make the kernel send this process a signal when its parent ends (Linux only)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


def wait(child: int, send: Callable[[int], None]) -> int:
    """Wait for a child from `fork` and return its exit code, negative for a signal; pass signals on with `send`."""
    while True:
        received = signal.sigwait(AWAITED_SIGNALS)
        if received in FORWARDED_SIGNALS:
            send(received)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


def main(command: Sequence[str]) -> None:
    """Run a command, and exit with its exit code, or 128 + N if signal N has killed it.

    Standard input is a pipe, whose other end closes when the parent closes it, exits or is killed. Then the command and
    all processes of its group are interrupted, and killed after a grace period.
    """
    child = fork()
    if not child:
        _execute(command)
    threading.Thread(target=_stop_when_parent_ends, args=(child,), daemon=True).start()
    code = wait(child, lambda number: _signal_group(child, number))
    _signal_group(child, signal.SIGKILL)  # processes that the command left running
    os._exit(code if code >= 0 else 128 - code)


def _execute(command: Sequence[str]) -> None:
    """Replace this process by the command, which has no standard input."""
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    unblock_signals()
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    os.execvp(command[0], list(command))


def _stop_when_parent_ends(group: int) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    _signal_group(group, signal.SIGINT)
    time.sleep(GRACE_PERIOD)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    main(sys.argv[1:])
