"""Several processes started by one: output, exit code and message of the one that fails, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from epigram.core.errors import exit_code, message
from epigram.core.outcome import OUTCOME_FILE, read_outcome
from epigram.core.signals import Terminated
from epigram.training import launch as launch_module
from epigram.training.launch import ProcessGroup, launch

MODULE = "tests.support.launched"
LAUNCH = f"""
import sys
from epigram.core.errors import handle_errors, run_and_exit
from epigram.training.launch import launch
run_and_exit(handle_errors(lambda: launch({MODULE!r}, sys.argv[1:], 2)))
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def failed(folder: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Return the exit code of processes of which one fails, and the summary of the outcome."""
    monkeypatch.setenv(OUTCOME_FILE, str(folder / "outcome.json"))
    with pytest.raises(SystemExit) as ended:
        launch(MODULE, [str(folder), case], 2)
    outcome = read_outcome(folder / "outcome.json")
    assert outcome is not None and outcome.code == ended.value.code
    return outcome.code, outcome.summary


def test_only_the_first_process_prints(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    launch(MODULE, [str(tmp_path), "end"], 2)
    assert capfd.readouterr() == ("rank 0 of 2\n", "warning of rank 0\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_the_failure_of_a_process_is_that_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert failed(tmp_path, "fail", monkeypatch) == (69, "no network")
    assert capfd.readouterr().err == "warning of rank 1\nerror: no network\nsecond line\n"


@pytest.mark.parametrize("case", ["alone", "deaf"])
def test_processes_that_compute_when_another_one_fails_are_ended(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_module, "GRACE_PERIOD", 600.0 if case == "alone" else 0.5)
    assert failed(tmp_path, case, monkeypatch) == (69, "no network")


def test_out_of_memory_is_retryable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed(tmp_path, "memory", monkeypatch) == (exit_code(MemoryError()), message(MemoryError()))


@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor needs Linux")
def test_a_killed_process_is_reported_and_not_what_the_others_say_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, summary = failed(tmp_path, "kill", monkeypatch)
    assert (code, summary) == (137, "killed by SIGKILL, probably out of memory; free memory and rerun")


def test_a_failure_that_another_one_explains_comes_last(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path, 3)
    names = ["another process of the training has ended; rerun", "second", "first"]
    for rank, summary in enumerate(names):
        file = tmp_path / f"{rank}.json"
        file.write_text(f'{{"stage": "", "code": 75, "summary": "{summary}", "details": [], "state": "Failed"}}')
        os.utime(file, (1000.0 - rank, 1000.0 - rank))
    assert sorted(range(3), key=group._order) == [2, 1, 0]


@pytest.fixture
def waiting(tmp_path: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """Return a process that has started two others, which run until they get a signal, and their ids."""
    command = [sys.executable, "-c", LAUNCH, str(tmp_path), "wait"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    files = [tmp_path / "0", tmp_path / "1"]
    wait_until(lambda: all(file.exists() for file in files) or started.poll() is not None)
    return started, [int(file.read_text()) for file in files]


@pytest.mark.parametrize(
    ("number", "code", "error"),
    [
        (signal.SIGTERM, 75, "stopped by SIGTERM; run it again to resume"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_a_signal_ends_all(
    number: signal.Signals, code: int, error: str, waiting: tuple[subprocess.Popen[str], list[int]]
) -> None:
    started, children = waiting
    started.send_signal(number)
    _, printed = started.communicate(timeout=60)
    assert (started.returncode, printed.splitlines()[-1]) == (code, f"error: {error}")
    assert not any(map(runs, children))


@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor needs Linux")
def test_no_process_outlives_a_killed_launcher(waiting: tuple[subprocess.Popen[str], list[int]]) -> None:
    started, children = waiting
    started.kill()
    started.communicate(timeout=60)
    wait_until(lambda: not any(map(runs, children)))


def test_a_process_that_a_signal_ends_at_its_start_has_the_message_of_the_signal(tmp_path: Path) -> None:
    group = ProcessGroup(tmp_path, 1)
    group.children.append(subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 15)"]))
    group.wait()
    (tmp_path / "0.txt").touch()
    with pytest.raises(Terminated):
        group.report()


def runs(process: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
