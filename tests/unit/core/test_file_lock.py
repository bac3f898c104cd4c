"""Tests of the lock file: one holder at a time, whose process id others report, until it ends in any way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from epigram.core.errors import TryAgainError
from epigram.core.files import exclusive_lock

HOLD = """
import sys
from pathlib import Path
from epigram.core.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), str):
    print("held", flush=True)
    sys.stdin.read()
"""


def busy(process: str) -> str:
    return f"held by {process}"


def test_others_are_told_the_process_until_the_holder_releases_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "a.lock"
    with exclusive_lock(lock, busy):
        for _ in range(2):  # the first contender leaves the process id in the file
            with pytest.raises(TryAgainError, match=f"^held by {os.getpid()}$"), exclusive_lock(lock, busy):
                pass
    with exclusive_lock(lock, busy):
        pass


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(TryAgainError, match=f"^held by {other.pid}$"), exclusive_lock(lock, busy):
            pass
        other.kill()
        other.wait()
        with exclusive_lock(lock, busy):
            assert lock.read_text() == str(os.getpid())


def test_an_error_of_the_block_is_raised_and_releases_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    with pytest.raises(KeyError), exclusive_lock(lock, busy):
        raise KeyError
    with exclusive_lock(lock, busy):
        pass
