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
from torch.distributed.elastic.multiprocessing import PContext

from epigram.process.exits import exit_code, message
from epigram.process.outcome import OUTCOME_FILE, read_outcome
from epigram.process.signals import Terminated
from epigram.training.distributed.launch import _order, launch

MODULE = "tests.support.launched"
LAUNCH = f"""
import sys
from epigram.process.exits import handle_errors, run_and_exit
from epigram.training.distributed.launch import launch
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


@pytest.mark.parametrize("case", [pytest.param("alone", marks=pytest.mark.extended), "deaf"])
def test_processes_that_compute_when_another_one_fails_are_ended(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = PContext.close
    grace = 600 if case == "alone" else 1
    monkeypatch.setattr(PContext, "close", lambda self, death_sig=None, timeout=30: close(self, death_sig, grace))
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
    for rank, summary in enumerate(["another process of the training has ended; rerun", "second", "first"]):
        file = tmp_path / str(rank)
        file.write_text(f'{{"stage": "", "code": 75, "summary": "{summary}", "details": [], "state": "Failed"}}')
        os.utime(file, (1000.0 - rank, 1000.0 - rank))
    assert [file.name for file in sorted(tmp_path.iterdir(), key=_order)] == ["2", "1", "0"]


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
        pytest.param(signal.SIGINT, 130, "interrupted", marks=pytest.mark.extended),
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
    program = tmp_path / "ended_by_a_signal.py"
    program.write_text("import os; os.kill(os.getpid(), 15)")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Terminated):
        patch.setenv("PYTHONPATH", str(tmp_path))
        launch(program.stem, [], 1)


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
