"""Child processes that cannot outlive their parent.

`start` runs this file as a small supervisor between the parent and the command. The supervisor holds one end of a pipe.
The other end closes when the parent closes it, exits or is killed. Then the supervisor interrupts the command and all
processes of its group, and kills them after a grace period. This file imports no project code, so it starts in a few
milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

GRACE_PERIOD = 10.0  # seconds between the interrupt and the kill


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start `command` under supervision; `options` are Popen's. A killed command exits with 128 + the signal."""
    supervisor = [sys.executable, "-I", "-S", __file__, *command]
    return subprocess.Popen(supervisor, stdin=subprocess.PIPE, start_new_session=True, text=True, **options)


def terminate(child: subprocess.Popen[str]) -> None:
    """Request the end of the command and all processes of its group; `child.wait()` returns when they have ended."""
    if child.stdin:
        child.stdin.close()


class ProcessPool:
    """Supervised child processes that are terminated together. Thread-safe; after `stop`, no new process starts."""

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[str]] = set()

    def start(self, launch: Callable[[], subprocess.Popen[str]]) -> subprocess.Popen[str] | None:
        """Start a child with `launch` and return it; return None after `stop`."""
        with self._lock:
            if self.stopped:
                return None
            child = launch()
            self._children.add(child)
            return child

    def discard(self, child: subprocess.Popen[str]) -> None:
        """Forget a child that has ended."""
        self._children.discard(child)

    def stop(self) -> None:
        """Terminate all children and start no new ones."""
        with self._lock:
            self.stopped = True
            for child in self._children:
                terminate(child)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _stop_when_parent_ends(group: int) -> None:
    while os.read(0, 1):
        pass
    _signal(group, signal.SIGINT)
    time.sleep(GRACE_PERIOD)
    _signal(group, signal.SIGKILL)


def main(command: Sequence[str]) -> None:
    """Run the command in its own process group and exit with its exit code."""
    # A background job of a shell ignores SIGINT, and child processes would inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_stop_when_parent_ends, args=(child.pid,), daemon=True).start()
    code = child.wait()
    _signal(child.pid, signal.SIGKILL)  # processes that the command left running
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
