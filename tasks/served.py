"""The note of who serves this repository: its process and its address.

The process holds the note's lock as long as it lives, and the system lets go of it however it ends: a note that
nobody holds says nothing, whatever process may have got its id since.
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

from pithy.errors import TryAgainError

PAUSE = 0.05  # seconds between two looks
LOOKS = 20  # at a note that another process is reading or writing
PATIENCE = 120.0  # seconds for everything to end

_claimed: list[TextIO] = []  # open, and so locked, until the system closes it


@dataclass(frozen=True)
class Served:
    """The process that serves, and the server's address; empty while it starts."""

    process: int
    url: str = ""


def claim() -> Callable[[str], None]:
    """Be the one process that serves here, to its end; what is returned notes the server's address.

    Raises TryAgainError where another one does.
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
        time.sleep(PAUSE)  # another process may only be looking
    found = holder() or Served(0)
    where = f" at {found.url}" if found.url else ""
    raise TryAgainError(f"process {found.process} serves here already{where}: use it, or end it with make stop")


def holder() -> Served | None:
    """Who serves this repository; None where nobody does."""
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
    """End what is served here, and return when it is gone; None where nobody serves. Raises TryAgainError."""
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
