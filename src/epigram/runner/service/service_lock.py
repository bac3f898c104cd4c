"""Record of the process that serves this repository, and of the server's address.

The process locks the folder PREFECT_HOME as long as it serves, and the operating system releases the lock however the
process ends. A record in a folder that is not locked is invalid, even if another process has the same id by now.
Readers test this with a shared lock, which `filelock` does not have; with exclusive locks, one of two readers at once
would take the other for the serving process. Several repositories, or containers on one disk, may share PREFECT_HOME,
so the record also has the repository and the namespace of the process's id.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from epigram.core.config_types import Positive, validate_as
from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.core.files import write_json

CHECK_INTERVAL = 0.05  # seconds between two checks
MAX_CHECKS = 20  # number of checks while another process reads or writes the record
STOP_TIMEOUT = 120.0  # seconds to wait until everything has ended


@dataclass(frozen=True)
class Service:
    """The serving process and the server's address, which is empty during startup.

    `root` is the repository. `namespace` is empty without Linux's /proc.
    """

    process: Positive  # os.kill takes other numbers for groups of processes
    url: str
    root: str
    namespace: str


@contextmanager
def acquire(root: Path) -> Iterator[Callable[[str], None]]:
    """Register this process as the service of `root`, until the end of the context.

    Yields a function that records the server's address. Raises TryAgainError if another process is registered.
    """
    path = _record_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    own = Service(os.getpid(), "", str(root.resolve()), _namespace())
    with _locked_folder() as folder:
        _lock(folder, own)

        def record(url: str) -> None:
            write_json(path, asdict(replace(own, url=url)))

        record("")
        try:
            yield record
        finally:
            path.unlink(missing_ok=True)


def _lock(descriptor: int, own: Service) -> None:
    for _ in range(MAX_CHECKS):
        if _try_lock(descriptor, fcntl.LOCK_EX):
            return
        time.sleep(CHECK_INTERVAL)  # another process may hold a shared lock for a moment
    service = holder() or own
    where = f" at {service.url}" if service.url else ""
    if service.root != own.root:
        raise TryAgainError(f"process {service.process} serves {_other(service)}")
    raise TryAgainError(
        f"process {service.process} already serves this repository{where}; use it, or stop it with epigram stop"
    )


def holder() -> Service | None:
    """Return the process that serves this repository, or None. Raises TryAgainError without a valid record of it."""
    path = _record_file()
    if not path.parent.is_dir():
        return None
    with _locked_folder() as folder:
        for _ in range(MAX_CHECKS):
            if _try_lock(folder, fcntl.LOCK_SH):
                return None
            if service := _read_record():
                return service
            time.sleep(CHECK_INTERVAL)
    raise TryAgainError(
        f"another process serves and has not written {path}: it is starting or stopping; try again later"
    )


@contextmanager
def _locked_folder() -> Iterator[int]:
    """Yield a descriptor of the folder that the serving process locks; closing it releases the lock."""
    descriptor = os.open(_record_file().parent, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_record() -> Service | None:
    """Return the content of the record; None if it is missing or damaged."""
    try:
        return validate_as(Service, json.loads(_record_file().read_bytes()), file=str(_record_file()))
    except (OSError, ValueError, EpigramError):
        return None


def stop(root: Path) -> Service | None:
    """Terminate the process that serves `root`, wait for its end and return it; return None if there is none.

    Raises ParameterError if it serves another repository, TryAgainError if it runs in another container or does not
    end in time.
    """
    service = holder()
    if service is None:
        return None
    _check_is_own(service, root)
    os.kill(service.process, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while (now := holder()) and now.process == service.process:
        if time.monotonic() > deadline:
            raise TryAgainError(
                f"process {service.process} did not stop within {STOP_TIMEOUT:g} s; see the logs in PREFECT_HOME"
            )
        time.sleep(CHECK_INTERVAL)
    return service


def _check_is_own(service: Service, root: Path) -> None:
    """Raise an error if the service belongs to another repository, or its process id to another container."""
    if service.root != str(root.resolve()):
        raise ParameterError(f"nothing is stopped: process {service.process} serves {_other(service)}")
    if service.namespace != _namespace():
        raise TryAgainError(
            f"nothing is stopped: process {service.process} of {_record_file()} runs in another container; run epigram "
            "stop there"
        )


def _other(service: Service) -> str:
    """Return which repository the service serves, and what to do."""
    return f"{service.root} with the same PREFECT_HOME; stop it with Ctrl-C where it runs, or set another PREFECT_HOME"


def _namespace() -> str:
    """Return the namespace of this process's id, which identifies its container; empty without /proc."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _try_lock(descriptor: int, lock: int) -> bool:
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _record_file() -> Path:
    return Path(os.environ["PREFECT_HOME"]) / "served.json"
