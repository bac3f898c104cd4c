"""Record of the process that serves this repository, and of the server's address.

The process locks the record file as long as it lives, and the operating system releases the lock however the process
ends. A record that is not locked is invalid, even if another process has the same id by now.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from epigram.core.errors import TryAgainError

PAUSE = 0.05  # seconds between two checks
LOOKS = 20  # number of checks while another process reads or writes the record
PATIENCE = 120.0  # seconds to wait until everything has ended

_claimed: list[TextIO] = []  # open, and therefore locked, until the process ends


@dataclass(frozen=True)
class Served:
    """The serving process and the server's address, which is empty during startup."""

    process: int
    url: str = ""


def claim() -> Callable[[str], None]:
    """Register this process as the serving one until it ends; return a function that records the server's address.

    Raises TryAgainError if another process serves this repository.
    """
    note = _note()
    note.parent.mkdir(parents=True, exist_ok=True)
    file = note.open("a+")
    _lock(file.fileno())
    _claimed.append(file)

    def write(url: str) -> None:
        file.truncate(0)
        file.write(json.dumps({"process": os.getpid(), "url": url}))
        file.flush()

    write("")
    return write


def _lock(descriptor: int) -> None:
    for _ in range(LOOKS):
        if _granted(descriptor, fcntl.LOCK_EX):
            return
        time.sleep(PAUSE)  # another process may hold a shared lock for a moment
    found = holder() or Served(0)
    where = f" at {found.url}" if found.url else ""
    raise TryAgainError(f"process {found.process} serves here already{where}: use it, or end it with make stop")


def holder() -> Served | None:
    """Return the process that serves this repository, or None. Raises TryAgainError if it is just starting."""
    note = _note()
    if not note.exists():
        return None
    with note.open() as file:
        for _ in range(LOOKS):
            if _granted(file.fileno(), fcntl.LOCK_SH):
                return None
            file.seek(0)
            if text := file.read():
                return Served(**json.loads(text))
            time.sleep(PAUSE)
    raise TryAgainError(f"{note} is held and empty: another process is starting: try again")


def stop() -> Served | None:
    """Terminate the serving process, wait for its end and return it; return None if there is none.

    Raises TryAgainError if it does not end in time.
    """
    found = holder()
    if found is None:
        return None
    os.kill(found.process, signal.SIGTERM)
    end = time.monotonic() + PATIENCE
    while (now := holder()) and now.process == found.process:
        if time.monotonic() > end:
            raise TryAgainError(f"process {found.process} has not ended in {PATIENCE:g} s: see what it is doing")
        time.sleep(PAUSE)
    return found


def _granted(descriptor: int, lock: int) -> bool:
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _note() -> Path:
    return Path(os.environ["PREFECT_HOME"]) / "served.json"
