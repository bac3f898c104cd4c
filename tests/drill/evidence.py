"""Evidence that an injected fault hit the command for which it was meant."""

from __future__ import annotations

import time
from pathlib import Path

from tests.drill.place import Ended, Running

DISK_FULL = ("No space left", "disk is full", "os error 28")
READ_ONLY = ("Read-only file system", "readonly database", "os error 30")
KILLED = (
    "killed by SIGKILL",
    "killed, most often because",
    "killed, probably because",
    "exited with -9",
    "exited with 137",
)
INTERRUPTED = ("error: interrupted", "stopped by SIGTERM", "interrupted by the user")
OUT_OF_MEMORY = ("out of memory",)
BUSY = ("is busy", "Unable to acquire lock", "another run", "another process")
NEVER = 1  # ns since 1970: an access time that no read sets


def mentions(ended: Ended, words: tuple[str, ...]) -> bool:
    """Return whether the command printed one of the words."""
    return any(word in ended.said for word in words)


def answered(sent: bool, ended: Ended, codes: set[int]) -> bool:
    """Return whether a signal hit: it was sent to a live command, which exited with one of `codes` other than 0."""
    return sent and ended.code in codes - {0}


def overlapped(first: Running, second: Running) -> bool:
    """Return whether two commands ran at once: the first was alive after the second had printed something."""
    return second.until(bool) and first.child.poll() is None


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended; a zombie has ended."""
    return _state(pid) not in {"", "Z", "X"}


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, for example by SIGSTOP."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    """Return the letter of a process's state; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]


def has_ended(pid: int, seconds: float = 5.0) -> bool:
    """Return whether a process ends within `seconds`."""
    end = time.monotonic() + seconds
    while (running := is_running(pid)) and time.monotonic() < end:
        time.sleep(0.01)
    return not running
