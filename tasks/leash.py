"""A command that cannot outlive whoever started it.

`start` runs this file as a small process between the two. It holds one end of a pipe; when the other end closes,
because the parent lets go or is gone (killed included), the command and all that it started are interrupted and,
after a grace, killed. This file imports nothing of ours: it starts in a few milliseconds.
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

GRACE = 10.0  # seconds between the interrupt and the kill


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Run `command` on a leash; `options` are Popen's. The exit code of a killed command is 128 + the signal."""
    leash = [sys.executable, "-I", "-S", __file__, *command]
    return subprocess.Popen(leash, stdin=subprocess.PIPE, start_new_session=True, text=True, **options)


def let_go(child: subprocess.Popen[str]) -> None:
    """Ask for the end of the command and of all that it started; `child.wait()` tells when they are gone."""
    if child.stdin:
        child.stdin.close()


class Pack:
    """Leashed children that end together; after `stop` none starts any more. Safe from any thread."""

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[str]] = set()

    def start(self, begin: Callable[[], subprocess.Popen[str]]) -> subprocess.Popen[str] | None:
        """The child that `begin` starts, or None after `stop`."""
        with self._lock:
            if self.stopped:
                return None
            child = begin()
            self._children.add(child)
            return child

    def ended(self, child: subprocess.Popen[str]) -> None:
        """Forget a child that has ended."""
        self._children.discard(child)

    def stop(self) -> None:
        """Let go of every child."""
        with self._lock:
            self.stopped = True
            for child in self._children:
                let_go(child)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end_with_parent(group: int) -> None:
    while os.read(0, 1):
        pass
    _signal(group, signal.SIGINT)
    time.sleep(GRACE)
    _signal(group, signal.SIGKILL)


def main(command: Sequence[str]) -> None:
    """Run the command in a group of its own and exit with its code."""
    # A background job of a shell ignores SIGINT, and would hand that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_parent, args=(child.pid,), daemon=True).start()
    code = child.wait()
    _signal(child.pid, signal.SIGKILL)  # what the command left behind
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
