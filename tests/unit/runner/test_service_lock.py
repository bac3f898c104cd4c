"""Tests of the record of the serving process: `epigram stop` signals only the service of its own repository."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.runner.service import service_lock
from epigram.runner.service.service_lock import Service

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="requires /proc of Linux")
URL = "http://127.0.0.1:9"
OTHER = "process 12 serves /other with the same PREFECT_HOME; stop it with Ctrl-C where it runs"


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(service_lock, "MAX_CHECKS", 2)
    return tmp_path / "home" / "served.json"


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record signals instead of sending them."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number)))
    return sent


@contextmanager
def recorded(record: Path, content: dict[str, Any]) -> Iterator[None]:
    """Write the record and lock its folder, as a serving process does."""
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(content))
    folder = os.open(record.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    yield
    os.close(folder)


def running(root: Path, process: int) -> Service:
    """Return the record of a process that serves `root`."""
    return Service(process, URL, str(root), service_lock._namespace())


def test_the_record_has_what_tells_the_process_from_others_and_is_empty_afterwards(
    record: Path, tmp_path: Path
) -> None:
    with service_lock.acquire(tmp_path) as write:
        assert service_lock.holder() == replace(running(tmp_path, os.getpid()), url="")
        write(URL)
        found = service_lock.holder()
        assert found == running(tmp_path, os.getpid())
        assert found.namespace.startswith("pid:[")
    assert not record.exists() and service_lock.holder() is None
    with service_lock.acquire(tmp_path):
        pass  # the lock is free again


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"root": "/other"}, ParameterError, f"nothing is stopped: {OTHER}"),
        ({"namespace": "pid:[1]"}, TryAgainError, "nothing is stopped: process 12 of .* runs in another container"),
    ],
)
def test_a_process_that_may_be_another_is_not_signalled(
    changes: dict[str, str],
    kind: type[EpigramError],
    said: str,
    record: Path,
    tmp_path: Path,
    signals: list[tuple[int, int]],
) -> None:
    own = replace(running(tmp_path, os.getpid()), **changes)
    with recorded(record, asdict(own)), pytest.raises(kind, match=said.replace("12", str(os.getpid()))) as raised:
        service_lock.stop(tmp_path)
    assert "\n" not in str(raised.value) and signals == []


def test_the_own_service_is_stopped(record: Path, tmp_path: Path) -> None:
    code = (
        "import contextlib, pathlib, signal, sys\n"
        "from epigram.runner.service import service_lock\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "with service_lock.acquire(pathlib.Path(sys.argv[1])), contextlib.suppress(KeyboardInterrupt):\n"
        "    print('serves', flush=True)\n"
        "    signal.pause()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "serves\n"
        stopped = service_lock.stop(tmp_path)
        assert stopped is not None and stopped.process == process.pid
        assert process.wait(60) == 0
    assert service_lock.stop(tmp_path) is None


def test_a_service_that_has_not_written_its_record_is_waited_for(record: Path, tmp_path: Path) -> None:
    with service_lock.acquire(tmp_path):
        record.unlink()
        with pytest.raises(TryAgainError, match=r"another process serves and has not written .*served\.json"):
            service_lock.holder()
        with pytest.raises(TryAgainError, match="another process serves"), service_lock.acquire(tmp_path):
            pass


@pytest.mark.parametrize("content", ["", "garbage", '{"process": 1, "url": "http://127.0.0.1:9"}'])
def test_a_record_that_a_killed_service_left_does_not_count(content: str, record: Path, tmp_path: Path) -> None:
    record.parent.mkdir()
    record.write_text(content)
    assert service_lock.holder() is None
    assert service_lock.stop(tmp_path) is None
    with service_lock.acquire(tmp_path) as write:
        write(URL)
        assert service_lock.holder() is not None


def test_a_second_service_names_the_repository_of_the_first(record: Path, tmp_path: Path) -> None:
    own = running(tmp_path, 12)
    with (
        recorded(record, asdict(own)),
        pytest.raises(TryAgainError, match=f"process 12 already serves this repository at {URL}"),
        service_lock.acquire(tmp_path),
    ):
        pass
    with (
        recorded(record, asdict(replace(own, root="/other"))),
        pytest.raises(TryAgainError, match=OTHER),
        service_lock.acquire(tmp_path),
    ):
        pass
