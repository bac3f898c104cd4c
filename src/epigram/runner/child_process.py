"""Child processes that cannot outlive their parent: each has a supervisor, see `process.supervisor`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from epigram.process import supervisor


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start `command` under supervision; `options` are Popen's. A killed command exits with 128 + the signal.

    Its output is UTF-8 in every locale.
    """
    supervised = [sys.executable, "-I", "-S", supervisor.__file__, *command]
    settings: Any = {"encoding": "utf-8", "errors": "replace", **options, "env": utf8(options.get("env") or os.environ)}
    return subprocess.Popen(supervised, stdin=subprocess.PIPE, start_new_session=True, **settings)


def utf8(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a Python program prints UTF-8 in every locale."""
    return {**environment, "PYTHONIOENCODING": "utf-8"}


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
        with self._lock:
            self._children.discard(child)

    def stop(self) -> None:
        """Terminate all children and start no new ones."""
        with self._lock:
            self.stopped = True
            children = list(self._children)
        for child in children:
            terminate(child)
