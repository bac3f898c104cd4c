"""Supervisor process between DVC and a stage, which reports how the stage ended when the stage itself cannot.

A library that is out of memory may abort, exit with its own exit code, or retry the allocation forever; the kernel may
kill the process. In all these cases DVC reports only a number. The supervisor is forked before any library is imported,
so it takes 10 MB, most of them shared, and no time.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from epigram.core.display import echo
from epigram.core.errors import Terminated, TryAgainError, exit_code, exit_now, message
from epigram.core.memory_limit import has_limit, is_near_limit
from epigram.core.outcome import Outcome, current_stage

PR_SET_PDEATHSIG = 1  # PR_SET_PDEATHSIG of Linux's prctl
FORWARDED_SIGNALS = {signal.SIGTERM, signal.SIGINT}
CRASH_SIGNALS = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGTRAP}
LIBRARY_EXIT_CODES = {1, 127}  # exit codes of libraries; epigram uses neither

CHECK_INTERVAL = 10.0  # seconds between two checks for an endless allocation loop
MIN_PAGE_FAULTS = 100  # page faults between two checks; a process with fewer gets no memory
MIN_KERNEL_SHARE = 1 / 4  # of the CPU time in an allocation loop; the machine may be busy with other processes
MIN_KERNEL_TIME = 1 / 50  # as a share of CHECK_INTERVAL; less is not significant


def start_supervisor() -> None:
    """Fork: the child continues as the stage, this process waits, reports how it ended, and exits with its code.

    The child is killed when its parent ends. It has its own process group, so that it receives each signal once.
    """
    _signal_on_parent_exit(signal.SIGTERM)
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED_SIGNALS, signal.SIGCHLD})
    if child := os.fork():
        code, line = _describe_exit(*_wait(child))
        if line:
            echo(f"error: {line}", file=sys.stderr)
            Outcome.failed(current_stage(), code, line).write()
        exit_now(code)
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # `stty tostop` would stop a background process that prints
    _signal_on_parent_exit(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(TryAgainError.code)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _signal_on_parent_exit(number: signal.Signals) -> None:
    """Make the kernel send this process a signal when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


def _wait(child: int) -> tuple[int, bool]:
    """Wait for the child and forward signals; return its exit code (negative: a signal) and whether memory ran out."""
    if os.getppid() == 1 and b"dvc" not in Path("/proc/1/cmdline").read_bytes():
        os.kill(child, signal.SIGTERM)  # DVC was killed before the parent-death signal was set
    out_of_memory, usage = False, (0, 0.0, 0.0)
    while True:
        received = signal.sigtimedwait({*FORWARDED_SIGNALS, signal.SIGCHLD}, CHECK_INTERVAL)
        if received and received.si_signo in FORWARDED_SIGNALS:
            os.kill(child, received.si_signo)
        elif received is None and is_near_limit(child):
            previous, usage = usage, _read_usage(child)
            pages, kernel, user = (now - before for now, before in zip(usage, previous, strict=True))
            busy = kernel > max(MIN_KERNEL_SHARE * (kernel + user), MIN_KERNEL_TIME * CHECK_INTERVAL)
            if pages < MIN_PAGE_FAULTS and busy:
                out_of_memory = True
                os.kill(child, signal.SIGKILL)
        memory_limited = has_limit(child)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code, out_of_memory or (memory_limited and code in CRASH_SIGNALS | LIBRARY_EXIT_CODES)


def _read_usage(child: int) -> tuple[int, float, float]:
    """Return the number of page faults of the child, and its CPU seconds in the kernel and in user mode."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    return int(fields[7]) + int(fields[9]), int(fields[12]) / tick, int(fields[11]) / tick


def _describe_exit(code: int, out_of_memory: bool) -> tuple[int, str]:
    """Return the exit code for this process, and the message to print, empty if the child ended by itself."""
    if out_of_memory:
        return exit_code(MemoryError()), message(MemoryError())
    if code == -signal.SIGTERM:
        return exit_code(Terminated()), message(Terminated())
    if code == -signal.SIGKILL:
        return 128 - code, "killed by SIGKILL, probably out of memory; free memory and rerun"
    if code < 0:
        return 128 - code, f"terminated by signal {-code} ({signal.strsignal(-code)}) in a library or the system; rerun"
    return code, ""
