"""Record of the process that serves this repository, and of the server's address.

The process locks the record file as long as it lives, and the operating system releases the lock however the process
ends. A record that is not locked is invalid, even if another process has the same id by now. Readers test this with a
shared lock, which `filelock` does not have; with exclusive locks, one of two readers at once would take the other for
the serving process.
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

CHECK_INTERVAL = 0.05  # seconds between two checks
MAX_CHECKS = 20  # number of checks while another process reads or writes the record
STOP_TIMEOUT = 120.0  # seconds to wait until everything has ended

_locked_files: list[TextIO] = []  # open, and therefore locked, until the process ends


@dataclass(frozen=True)
class Service:
    """The serving process and the server's address, which is empty during startup."""

    process: int
    url: str = ""


def acquire() -> Callable[[str], None]:
    """Register this process as the serving one until it ends; return a function that records the server's address.

    Raises TryAgainError if another process serves this repository.
    """
    path = _record_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    _lock(file.fileno())
    _locked_files.append(file)

    def write(url: str) -> None:
        file.truncate(0)
        file.write(json.dumps({"process": os.getpid(), "url": url}))
        file.flush()

    write("")
    return write


def _lock(descriptor: int) -> None:
    for _ in range(MAX_CHECKS):
        if _try_lock(descriptor, fcntl.LOCK_EX):
            return
        time.sleep(CHECK_INTERVAL)  # another process may hold a shared lock for a moment
    service = holder() or Service(0)
    where = f" at {service.url}" if service.url else ""
    raise TryAgainError(
        f"process {service.process} already serves this repository{where}; use it, or stop it with epigram stop"
    )


def holder() -> Service | None:
    """Return the process that serves this repository, or None. Raises TryAgainError if it is just starting."""
    path = _record_file()
    if not path.exists():
        return None
    with path.open() as file:
        for _ in range(MAX_CHECKS):
            if _try_lock(file.fileno(), fcntl.LOCK_SH):
                return None
            file.seek(0)
            if text := file.read():
                return Service(**json.loads(text))
            time.sleep(CHECK_INTERVAL)
    raise TryAgainError(f"{path} is locked and empty: another process is starting; try again later")


def stop() -> Service | None:
    """Terminate the serving process, wait for its end and return it; return None if there is none.

    Raises TryAgainError if it does not end in time.
    """
    service = holder()
    if service is None:
        return None
    os.kill(service.process, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while (now := holder()) and now.process == service.process:
        if time.monotonic() > deadline:
            raise TryAgainError(
                f"process {service.process} did not stop within {STOP_TIMEOUT:g} s; see the logs in PREFECT_HOME"
            )
        time.sleep(CHECK_INTERVAL)
    return service


def _try_lock(descriptor: int, lock: int) -> bool:
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _record_file() -> Path:
    return Path(os.environ["PREFECT_HOME"]) / "served.json"
