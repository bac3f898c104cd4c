"""One stage: its outcome, exit code and streamed output, and the end of all processes that it started."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from epigram.runner.dvc import graph
from epigram.runner.dvc.dvc_output import PROGRESS
from epigram.runner.prefect.slots import Slots
from epigram.runner.prefect.stage import Outcome, Runner
from epigram.runner.prefect.status_table import StatusTable
from tests.support.processes import alive, until
from tests.support.toy import HERE, Toy

LOG = logging.getLogger("test")


def runner(toy: Toy, slots: int = 2) -> Runner:
    return Runner(toy.root, StatusTable(graph.read(toy.root).stages, Console(file=io.StringIO())), Slots(slots))


def test_a_stage_runs_then_is_cached_then_restored(toy: Toy) -> None:
    stages = runner(toy)
    assert stages.run("gather", LOG) == Outcome("Completed")
    assert stages.run("gather", LOG) == Outcome("Cached")
    (toy.root / "out" / "gather" / "result.txt").unlink()
    assert stages.run("gather", LOG) == Outcome("Restored")
    assert toy.journal() == ["gather"]


@pytest.mark.parametrize(("told", "code"), [(65, 65), (69, 69), (3, 3), (-signal.SIGKILL, 137), (-signal.SIGSEGV, 139)])
def test_the_code_of_a_failure_is_the_stage_s_own(toy: Toy, told: int, code: int) -> None:
    toy.tell({"gather": {"codes": [told], "say": ["looking", "found a fault"]}})
    outcome = runner(toy).run("gather", LOG)
    assert (outcome.state, outcome.code) == ("Failed", code)
    assert outcome.message.startswith("looking\nfound a fault\nerror: told to fail")  # some shells add "Killed"


def test_a_missing_input_is_code_66(toy: Toy) -> None:
    (toy.root / "data" / "sources" / "toy.yaml").unlink()
    outcome = runner(toy).run("gather", LOG)
    assert (outcome.state, outcome.code) == ("Failed", 66)
    assert "data/sources/toy.yaml" in outcome.message


def test_what_a_stage_prints_comes_at_once_and_without_dvc_s_advice(toy: Toy, caplog: pytest.LogCaptureFixture) -> None:
    toy.tell({"gather": {"say": ["first", "ünïcode 字", ""], "sleep": 30}})
    stages = runner(toy)
    with caplog.at_level(logging.INFO):
        work = threading.Thread(target=stages.run, args=("gather", LOG))
        work.start()
        until(lambda: stages.table.rows["gather"].line == "ünïcode 字")  # the stage still sleeps
        stages.stop()
        work.join()
    assert caplog.messages[:2] == ["first", "ünïcode 字"]


def test_progress_replaces_itself_and_is_seldom_logged(toy: Toy, caplog: pytest.LogCaptureFixture) -> None:
    toy.tell({"gather": {"say": [f"{PROGRESS}epoch {number}/50" for number in range(50)], "codes": [65]}})
    with caplog.at_level(logging.INFO):
        outcome = runner(toy).run("gather", LOG)
    assert caplog.messages[0] == "epoch 0/50"
    assert len(caplog.messages) < 5
    assert outcome.message == "error: told to fail"


def test_stop_ends_a_stage_with_its_children_and_starts_no_other(toy: Toy) -> None:
    toy.tell({"gather": {"sleep": 600, "child": True}})
    stages, outcomes = runner(toy, slots=1), []
    threads = [threading.Thread(target=lambda: outcomes.append(stages.run("gather", LOG))) for _ in range(2)]
    for thread in threads:
        thread.start()
    until((toy.told / "child").exists)
    until(toy.journal)
    stages.stop()
    for thread in threads:
        thread.join()
    assert [outcome.state for outcome in outcomes] == ["Cancelled", "Cancelled"]
    assert len(toy.journal()) == 1
    pids = [int((toy.told / "child").read_text()), toy.events()[0][3]]
    until(lambda: not any(map(alive, pids)))


def test_a_command_on_a_leash_ends_with_a_killed_parent(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = [
        sys.executable,
        "-c",
        f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)",
    ]
    program = (
        f"import time; from epigram.runner import child_process; child_process.start({command!r}); time.sleep(600)"
    )
    env = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE / 'src'}"}
    parent = subprocess.Popen([sys.executable, "-c", program], env=env)
    until(lambda: note.exists() and note.read_text())
    parent.kill()
    parent.wait()
    until(lambda: not alive(int(note.read_text())))


def test_a_board_without_a_terminal_prints_a_line_a_finished_stage(toy: Toy) -> None:
    text = io.StringIO()
    table = StatusTable(["gather", "judge"], Console(file=text))
    table.start("gather")
    table.stop("gather", "Completed")
    assert text.getvalue() == "gather Completed 0.0\n"


def test_a_board_on_a_low_terminal_keeps_what_runs_in_sight() -> None:
    text = io.StringIO()
    table = StatusTable([f"stage{number}" for number in range(40)], Console(file=text, height=12, width=80))
    table.start("stage39")
    table.set_line("stage39", "epoch 3/20")
    table.console.print(table)
    assert "stage39" in text.getvalue()
    assert "epoch 3/20" in text.getvalue()
    assert "32 more stages" in text.getvalue()
