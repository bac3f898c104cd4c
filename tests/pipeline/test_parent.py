"""The parent process of a stage: one line for each way to end, each signal delivered once, no orphan processes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.support.processes import alive, until

ROOT = Path(__file__).resolve().parents[2]
HEAD = (
    "import os, signal, sys, time",
    "from epigram.process import stage_process",
    "stage_process.start_supervisor()",
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the supervisor requires Linux")


def begin(*lines: str) -> subprocess.Popen[str]:
    """Start a program that runs these lines as the child of a parent process."""
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join([*HEAD, *lines])],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (["sys.exit(65)"], 65, ""),
        (["sys.exit(1)"], 1, ""),
        (["os.abort()"], 134, "error: terminated by signal 6 (Aborted) in a library or the system; rerun\n"),
        (["os.kill(os.getpid(), signal.SIGKILL)"], 137, "error: killed by SIGKILL, probably out of memory; "),
        (["os.kill(os.getpid(), signal.SIGTERM)"], 75, "error: stopped by SIGTERM; run it again to resume\n"),
    ],
)
def test_every_end_is_told(lines: list[str], code: int, said: str) -> None:
    process = begin(*lines)
    _, told = process.communicate(timeout=150)
    assert (process.returncode, told[: len(said) or None]) == (code, said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("everyone", [False, True])
def test_a_signal_comes_once(number: signal.Signals, everyone: bool) -> None:
    """Also if a terminal sends the signal to the whole foreground process group."""
    process = begin(
        "times = []",
        f"signal.signal({int(number)}, lambda *_: times.append(print('came')))",
        "print('ready')",
        "while not times: time.sleep(0.01)",
        "time.sleep(0.5)",  # a second delivery would arrive in this time
        "sys.exit(3)",
    )
    assert process.stdout is not None
    process.stdout.readline()
    (os.killpg if everyone else os.kill)(process.pid, number)
    said, _ = process.communicate(timeout=120)
    assert (process.returncode, said) == (3, "came\n")


def test_a_stage_dies_with_its_parent() -> None:
    process = begin("print(os.getpid())", "time.sleep(60)")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    until(lambda: not alive(child))


def test_a_stage_may_speak_behind_its_parent_in_any_terminal() -> None:
    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    lines = ("import fcntl, termios", "fcntl.ioctl(1, termios.TIOCSCTTY, 0)", *HEAD, "print('said')")
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=slave,
        start_new_session=True,
    )
    assert process.wait(120) == 0
    assert os.read(master, 100) == b"said\r\n"
