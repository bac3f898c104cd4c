"""One stage: its outcome, exit code and streamed output, and the end of all processes that it started."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.logging import disable_run_logger
from prefect.states import Failed
from rich.console import Console

from epigram.core.errors import DataError, SourceUnavailableError, TryAgainError
from epigram.process.outcome import Outcome
from epigram.runner.dvc import graph
from epigram.runner.dvc.process import PROGRESS, stage_path
from epigram.runner.prefect.artifacts import StatusTable
from epigram.runner.prefect.stage import Runner, is_retryable, prefect_state, stage_attempt
from epigram.runner.scheduling.gpus import VISIBLE, GpuPool
from epigram.runner.scheduling.slots import Slots
from tasks import retraining, stage, trial
from tests.support.processes import alive, until
from tests.support.toy import HERE, Toy

LOG = logging.getLogger("test")


STARTED: list[Runner] = []


@pytest.fixture(autouse=True)
def stop_runners() -> Iterator[None]:
    """Stop the runners of a test at its end."""
    yield
    while STARTED:
        STARTED.pop().stop()


def runner(toy: Toy, slots: int = 2) -> Runner:
    table = StatusTable(graph.read(toy.root).stages, Console(file=io.StringIO()))
    STARTED.append(Runner(toy.root, table, Slots(slots)))
    return STARTED[-1]


def waiting(stages: Runner) -> list[int]:
    """Return the ids of the processes that wait for a stage: those of their supervisors."""
    return [process.child.pid for process in stages._processes._idle]


def test_each_stage_sees_the_gpus_that_it_has_been_given(toy: Toy) -> None:
    """One process of DVC runs the stages one after the other."""
    names = ["gather", "cut@token", "fit@mlp"]
    toy.tell({name: {"show": [VISIBLE]} for name in names})
    stages = runner(toy)
    stages.slots = Slots(1, gpus=GpuPool(("4", "7"), {"gather": 1, "fit@mlp": 2}))
    assert [stages.run(name, LOG).state for name in names] == ["Completed"] * 3
    shown = [event for _, event, *_ in toy.events() if event.startswith(VISIBLE)]
    assert shown == [f"{VISIBLE}=4", f"{VISIBLE}=", f"{VISIBLE}=4,7"]
    assert len(waiting(stages)) == 1


def test_the_end_of_a_stage_is_told_also_if_it_is_cached_or_ran_elsewhere(toy: Toy) -> None:
    ended: list[str] = []
    table = StatusTable(graph.read(toy.root).stages, Console(file=io.StringIO()))
    stages = Runner(toy.root, table, Slots(1), ended.append)
    STARTED.append(stages)
    stage_attempt(lambda: nullcontext(stages), "gather", current=True)()
    stages.record_state("cut@token", prefect_state(Outcome(stage="cut@token", state="Completed")))
    assert ended == ["gather", "cut@token"]


def test_a_stage_runs_then_is_cached_then_restored(toy: Toy) -> None:
    stages = runner(toy)
    assert stages.run("gather", LOG) == Outcome(stage="gather", state="Completed")
    assert stages.run("gather", LOG) == Outcome(stage="gather", state="Cached")
    (toy.root / "out" / "gather" / "result.txt").unlink()
    assert stages.run("gather", LOG) == Outcome(stage="gather", state="Restored")
    assert toy.journal() == ["gather"]


@pytest.mark.parametrize(
    ("told", "code", "summary"),
    [
        (65, 65, "exit code 65"),
        (3, 3, "exit code 3"),
        (-signal.SIGKILL, 137, "killed, probably because the machine is out of memory; free memory and rerun"),
        (-signal.SIGSEGV, 139, "terminated by signal 11 (Segmentation fault)"),
    ],
)
def test_a_command_without_an_outcome_gets_one_with_its_last_lines(
    toy: Toy, told: int, code: int, summary: str
) -> None:
    toy.tell({"gather": {"codes": [told], "say": ["looking", "found a fault"]}})
    outcome = runner(toy).run("gather", LOG)
    assert (outcome.stage, outcome.state, outcome.code, outcome.summary) == ("gather", "Failed", code, summary)
    assert outcome.details[:3] == ("looking", "found a fault", "error: told to fail")  # some shells add "Killed"


def test_a_stage_s_own_outcome_is_read_and_not_what_it_prints(toy: Toy) -> None:
    told = {"summary": "2 rows have no \x1b[31mtext", "details": ["row 3", "row 7"]}
    toy.tell({"gather": {"codes": [65], "say": ["error: another line"], "outcome": told}})
    failed = Outcome(stage="gather", code=65, summary="2 rows have no text", details=("row 3", "row 7"), state="Failed")
    found = runner(toy).run("gather", LOG)
    assert found == failed and found.output[:2] == ("error: another line", "error: told to fail")


def test_the_outcome_of_an_earlier_try_is_not_read(toy: Toy) -> None:
    toy.tell({"gather": {"codes": [65], "outcome": {"summary": "first try", "details": []}}})
    stages = runner(toy)
    assert stages.run("gather", LOG).summary == "first try"
    toy.tell({"gather": {"codes": [0, 69]}})
    assert stages.run("gather", LOG) == Outcome.failed("gather", 69, "exit code 69\nerror: told to fail")
    assert stages.run("gather", LOG) == Outcome(stage="gather")


@pytest.mark.parametrize(
    ("code", "again"), [(69, True), (75, True), (137, True), (65, False), (74, False), (130, False), (139, False)]
)
def test_a_stage_is_tried_again_after_an_absent_source_an_interruption_and_a_kill(code: int, again: bool) -> None:
    state, unused = prefect_state(Outcome.failed("gather", code, "it failed")), cast("Any", None)
    assert is_retryable(unused, unused, state) is again


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (TryAgainError("another run is active"), True),
        (SourceUnavailableError("the database does not respond"), True),
        (httpx.ConnectError("refused"), True),
        (DataError("row 3 has no text"), False),
        (ValueError("odd"), False),
    ],
)
def test_a_task_is_tried_again_after_an_error_that_may_pass(error: Exception, again: bool) -> None:
    assert is_retryable(cast("Any", None), cast("Any", None), Failed(data=error)) is again


def test_every_task_has_its_retries_from_one_place() -> None:
    """A challenge and a promotion are decisions, and the command of a trial has retries of its own."""
    known = {
        each.name: each
        for module in (retraining, stage, trial)
        for each in vars(module).values()
        if isinstance(each, Task)
    }
    assert {name: (each.retries, each.retry_delay_seconds) for name, each in known.items()} == {
        **dict.fromkeys(("publish", "ingest", "drift"), (2, [5.0, 20.0])),
        **dict.fromkeys(("challenge", "promote", "run"), (0, [])),
    }
    for name, each in known.items():
        assert each.retry_condition_fn is is_retryable, name
        assert (each.cache_policy, each.persist_result) == (NO_CACHE, False), name
    for file in (file for folder in ("flows", "tasks") for file in (HERE / folder).glob("*.py")):
        assert not re.search(r"retries=|retry_\w+=|RETRIES", file.read_text()), file


def test_a_stopped_stage_announces_no_retry_although_its_exit_code_may_pass(toy: Toy) -> None:
    stages = runner(toy)
    stages.stop()
    with disable_run_logger():
        assert stage_attempt(lambda: nullcontext(stages), "gather", current=False)().is_cancelled()
    row = stages.table.rows["gather"]
    assert (row.state, stages.outcomes["gather"].code) == ("Cancelled", TryAgainError.code)


def test_the_code_of_the_workspace_comes_before_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    assert stage_path(Path("/space")) == f"/space/src{os.pathsep}/theirs"
    monkeypatch.delenv("PYTHONPATH")
    assert stage_path(Path("/space")) == "/space/src"


def test_a_busy_lock_is_code_75(toy: Toy) -> None:
    stages, folder = runner(toy), toy.root / ".dvc" / "tmp"
    blocker = {"pid": os.getpid(), "cmd": "another run"}
    folder.mkdir(exist_ok=True)
    (folder / "rwlock").write_text(json.dumps({"write": {str(toy.root / "out" / "gather"): blocker}, "read": {}}))
    outcome = stages.run("gather", LOG)
    assert (outcome.state, outcome.code) == ("Failed", 75)
    assert "is busy" in outcome.summary
    assert f"  (PID {os.getpid()}): another run" in outcome.details


@pytest.mark.parametrize("file", ["params.yaml", "data/local/new.csv"])
def test_an_input_that_is_edited_while_the_stage_runs_is_code_75_and_the_next_attempt_has_it(
    toy: Toy, file: str
) -> None:
    toy.tell({"gather": {"sleep": 2}})
    stages, outcomes, path = runner(toy), list[Outcome](), toy.root / file
    work = threading.Thread(target=lambda: outcomes.append(stages.run("gather", LOG)))
    work.start()
    until(toy.journal)
    path.write_text(path.read_text().replace("tries: 4", "tries: 5") if path.exists() else "a new row\n")
    work.join()
    changed = "data/local" if file.startswith("data/local") else file
    summary = f"{changed} changed while gather ran; run it again"
    assert outcomes == [Outcome.failed("gather", TryAgainError.code, summary)]
    assert not (toy.root / "dvc.lock").exists()
    assert not [*(toy.root / ".dvc" / "cache" / "runs").rglob("*")]
    toy.tell({})
    assert stages.run("gather", LOG).state == "Completed"


def test_an_output_that_is_not_written_is_code_70(toy: Toy) -> None:
    step = toy.root / "step.py"
    step.write_text(step.read_text().replace("folder = pathlib.Path(out)", 'folder = pathlib.Path("elsewhere")'))
    outcome = runner(toy).run("gather", LOG)
    assert (outcome.code, outcome.summary) == (70, "output 'out/gather' does not exist")


def test_a_missing_input_is_code_66(toy: Toy) -> None:
    (toy.root / "data" / "sources" / "toy.yaml").unlink()
    outcome = runner(toy).run("gather", LOG)
    assert (outcome.state, outcome.code) == ("Failed", 66)
    assert outcome.summary == f"No such file or directory: {toy.root / 'data/sources/toy.yaml'}"


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


def test_a_stage_that_prints_nothing_for_too_long_is_ended_and_can_be_tried_again(toy: Toy) -> None:
    toy.tell({"gather": {"say": ["first"], "sleep": 120}})
    stages = runner(toy)
    stages._processes.max_silence = 8.0  # the start of DVC is silent, too
    outcome = stages.run("gather", LOG)
    assert (outcome.state, outcome.code) == ("Failed", TryAgainError.code)
    assert (
        outcome.summary
        == "ended because it printed nothing for 8 s; it continues from its checkpoint when it is run again"
    )
    toy.tell({})
    assert stages.run("gather", LOG).state == "Completed"


def test_progress_replaces_itself_and_is_seldom_logged(toy: Toy, caplog: pytest.LogCaptureFixture) -> None:
    toy.tell({"gather": {"say": [f"{PROGRESS}epoch {number}/50" for number in range(50)], "codes": [65]}})
    with caplog.at_level(logging.INFO):
        outcome = runner(toy).run("gather", LOG)
    assert caplog.messages[0] == "epoch 0/50"
    assert len(caplog.messages) < 5
    assert outcome.message == "exit code 65\nerror: told to fail"


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


def test_a_process_of_dvc_runs_one_stage_after_the_other(toy: Toy) -> None:
    stages = runner(toy)
    assert stages.run("gather", LOG).state == "Completed"
    first = waiting(stages)
    assert len(first) == 1
    assert stages.run("cut@token", LOG).state == "Completed"
    assert stages.run("gather", LOG).state == "Cached"
    assert waiting(stages) == first
    stages.stop()
    assert not alive(first[0])


def test_a_process_of_dvc_ends_with_a_stage_that_fails(toy: Toy) -> None:
    stages = runner(toy)
    toy.tell({"cut@token": {"codes": [65]}})
    stages.run("gather", LOG)
    assert (stages.run("cut@token", LOG).code, waiting(stages)) == (65, [])
    assert stages.run("cut@wordpiece", LOG).code == 0


def test_a_stage_leaves_no_process_running(toy: Toy) -> None:
    toy.tell({"gather": {"child": True}})
    stages = runner(toy)
    assert (stages.run("gather", LOG).state, waiting(stages)) == ("Completed", [])
    until(lambda: not alive(int((toy.told / "child").read_text())), 10)


def test_a_waiting_process_that_is_killed_is_replaced(toy: Toy) -> None:
    stages = runner(toy)
    stages.run("gather", LOG)
    [killed] = waiting(stages)
    os.kill(killed, signal.SIGKILL)
    until(lambda: stages._processes._idle[0].child.poll() is not None)
    assert stages.run("cut@token", LOG).state == "Completed"
    assert waiting(stages) != [killed]


def test_output_that_ends_within_a_line_is_read(toy: Toy, caplog: pytest.LogCaptureFixture) -> None:
    step = toy.root / "step.py"
    step.write_text(step.read_text() + "\nprint('half a line', end='')\n")
    stages = runner(toy)
    with caplog.at_level(logging.INFO):
        assert stages.run("gather", LOG).state == "Completed"
        assert stages.run("cut@token", LOG).state == "Completed"
    assert caplog.messages == ["half a line", "half a line"]
    assert len(waiting(stages)) == 1


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
