"""The service: schedules fire, failures are reported, crashed runs are detected, and all child processes end."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes import gone, until
from tests.support.serving import DEPLOYMENTS, Serving, listening, refused, written
from tests.support.toy import HERE, Toy, copied

pytestmark = [pytest.mark.slow, pytest.mark.extended]
SECRET = "T0/B0/x9s3cret"


@pytest.fixture(scope="module")
def ear() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    with listening() as found:
        yield found


@pytest.fixture(scope="module")
def toy_served(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toy]:
    with pytest.MonkeyPatch.context() as patch:
        toy = copied(finished, tmp_path_factory.mktemp("served"), patch)
        (toy.root / "prefect.yaml").write_text(DEPLOYMENTS)
        yield toy


@pytest.fixture(scope="module")
def serving(toy_served: Toy, ear: tuple[str, list[dict[str, Any]]]) -> Iterator[Serving]:
    (toy_served.root / "step.py").write_text((toy_served.root / "step.py").read_text() + "# not committed\n")
    served = Serving(toy_served, EPIGRAM_WEBHOOK=f"{ear[0]}/{SECRET}")
    try:
        until(lambda: served.runs(state_type="COMPLETED"))
        served.settle()
        yield served
    finally:
        served.kill()


def test_a_schedule_fires_and_runs_the_last_commit(serving: Serving) -> None:
    toy = serving.toy
    run = next(each for each in serving.runs() if each["state_type"] == "COMPLETED")
    assert run["name"].startswith("toy-")
    summary = json.loads((toy.root / "runs" / run["name"] / "summary.json").read_text())
    assert summary["revision"] == toy.shell("git", "rev-parse", "HEAD").strip()
    assert run["deployment_version"] == toy.shell("git", "rev-parse", "--short", "HEAD").strip()
    assert {stage["state"] for stage in summary["stages"].values()} == {"Restored"}  # from the shared cache


def test_a_second_one_says_that_one_is_running(serving: Serving) -> None:
    code, errors = refused(serving.toy)
    assert code == 75
    assert errors == f"error: process {serving.command.pid} already serves this repository at {serving.url}; " + (
        "use it, or stop it with epigram stop\n"
    )


def test_a_refresh_says_that_nothing_changed_or_runs_what_follows(serving: Serving) -> None:
    toy = serving.toy
    toy.forget()
    same = serving.ended(serving.start("refresh_pos", "refresh"))
    assert (same["type"], same["message"]) == ("COMPLETED", "the output of gather has not changed; nothing to do")
    assert toy.journal() == ["gather"]

    toy.forget()
    toy.tell({"gather": {"files": {"more.txt": "a new word"}, "show": ["SHOWN"]}})
    other = serving.ended(serving.start("refresh_pos", "refresh"))
    toy.tell({})
    assert other["type"] == "COMPLETED"
    assert toy.journal()[0] == "gather"
    assert toy.journal("SHOWN=by its deployment") == ["gather"]  # a variable of the deployment's job_variables
    assert {"cut@token", "cut@wordpiece"} <= set(toy.journal())


def test_a_killed_run_is_crashed_and_told_by_a_secret_address(
    serving: Serving, ear: tuple[str, list[dict[str, Any]]]
) -> None:
    toy = serving.toy
    toy.tell({"gather": {"sleep": 600, "child": True}})
    run = serving.start("refresh_pos", "refresh")
    serving.until_child()
    engine = serving.engine()
    stage = engine.children(recursive=True)
    second = serving.ended(serving.start("refresh_pos", "refresh"))  # one at a time: the new run is cancelled
    assert (second["type"], second["message"]) == ("CANCELLED", "Deployment concurrency limit reached.")
    assert not any(map(gone, stage))
    engine.kill()
    state = serving.ended(run)
    assert (state["type"], state["name"]) == ("CRASHED", "Crashed")
    until(lambda: all(map(gone, stage)), 30)
    name = serving.runs(id=run)[0]["name"]
    told = until(lambda: ear[1])
    assert [each["path"] for each in told] == [f"/{SECRET}"]
    assert told[0]["text"].startswith(f"refresh_pos: {name} is Crashed\nProcess exited with status code: -9")
    assert told[0]["text"].endswith(f"{serving.url}/runs/flow-run/{run}")
    assert written(toy, SECRET) == []
    for process in serving.family()[1:]:
        assert SECRET not in "".join([*process.cmdline(), *process.environ().values()])
    (toy.told / "child").unlink()


def test_a_run_that_is_not_the_worker_s_is_crashed_when_its_heartbeat_is_gone(serving: Serving) -> None:
    toy = serving.toy
    found_out_after(serving, 10.0)
    toy.tell({"gather": {"sleep": 600}})
    command = toy.command("--name", "lost")
    lost = until(lambda: serving.runs(name="lost", state_name="Running"))[0]
    until(lambda: serving.heartbeats(lost["id"]))
    command.kill()
    command.communicate(timeout=60)
    assert serving.ended(lost["id"])["message"] == "no heartbeat for 10 s: the process no longer exists"
    found_out_after(serving, 90.0)


def found_out_after(serving: Serving, seconds: float) -> None:
    """Mark runs without a heartbeat as Crashed after this many seconds."""
    ensure = f"import epigram.runner; from epigram.runner.service import notices; notices.ensure(None, {seconds})"
    env = serving.env | {"PREFECT_API_URL": f"{serving.url}/api"}
    subprocess.run([sys.executable, "-c", ensure], cwd=serving.toy.root, env=env, check=True, timeout=120)


def test_a_killed_service_leaves_no_process_and_the_next_one_knows(serving: Serving) -> None:
    toy = serving.toy
    toy.tell({"gather": {"sleep": 600, "child": True}})
    run = serving.start("refresh_pos", "refresh")
    serving.until_child()
    due = time.time() + 11  # later than a worker looks ahead
    when = datetime.fromtimestamp(due, UTC).isoformat()
    late = serving.start("pipeline", "pipeline", state_details={"scheduled_time": when})
    family = serving.kill()
    assert len(family) > 8  # server, worker, flow run, DVC, stage, its child, their parent processes
    until(lambda: all(map(gone, family)), 30)
    (toy.told / "child").unlink()

    time.sleep(max(0.0, due - time.time()))
    again = Serving(toy)
    try:
        assert again.runs(id=late) == []
        assert again.runs(id=run)[0]["state"]["message"] == "the service that ran it no longer exists"
        again.settle()
        run = again.start("refresh_pos", "refresh")
        again.until_child()
        family = again.family()
        ended = again.stop()
        assert (ended.returncode, ended.stdout) == (0, f"stopped process {again.command.pid}\n")
        until(lambda: all(map(gone, family)), 60)
        assert again.command.wait(timeout=60) == 0
    finally:
        again.kill()
    with sqlite3.connect(toy.told / "prefect" / "prefect.db") as database:
        states = dict(database.execute("select name, state_name from flow_run where state_name = 'Cancelled'"))
    assert states, "what ran was not cancelled"


def test_stopping_what_is_not_served_ends_nobody(toy: Toy) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        (toy.told / "prefect").mkdir()
        note = {"process": other.pid, "url": "http://127.0.0.1:9"}
        (toy.told / "prefect" / "served.json").write_text(json.dumps(note))
        command = toy.command(name="stop")
        output, errors = command.communicate(timeout=60)
        assert (command.returncode, output, errors) == (0, "no service is running for this repository\n", "")
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(
    ("environment", "code", "said"),
    [
        (
            {"DATABASE": "postgresql+asyncpg://me:x9s3cret@127.0.0.1:9/runs"},
            69,
            "cannot connect to DATABASE (127.0.0.1, runs)",
        ),
        ({"DATABASE": "mysql://me:x9s3cret@127.0.0.1/runs"}, 64, "DATABASE begins with mysql"),
        ({"DATABASE": "x9s3cret"}, 64, "DATABASE is not a valid URL"),
        ({"EPIGRAM_WEBHOOK": "hooks.example/x9s3cret"}, 64, "EPIGRAM_WEBHOOK is not a valid URL"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_clear_line(
    toy: Toy, environment: dict[str, str], code: int, said: str
) -> None:
    (toy.root / "prefect.yaml").write_text(DEPLOYMENTS)
    found, errors = refused(toy, **environment)
    assert (found, errors.count("\n")) == (code, 1)
    assert errors.startswith(f"error: {said}")
    assert "x9s3cret" not in errors
    assert written(toy, "x9s3cret") == []


def test_a_repository_without_schedules_is_refused(toy: Toy) -> None:
    assert refused(toy)[0] == 66
    (toy.root / "prefect.yaml").write_text("deployments: [{nam: x}]")
    assert refused(toy)[0] == 64


def test_what_this_repository_schedules_can_be_deployed() -> None:
    import yaml
    from prefect.flows import load_flow_from_entrypoint

    content = yaml.safe_load((HERE / "prefect.yaml").read_text())
    assert content["build"] == yaml.safe_load(DEPLOYMENTS)["build"]
    deployments = content["deployments"]
    assert [each["name"] for each in deployments] == ["pipeline", "retrain", "drift", "refresh"]
    for each in deployments:
        flow = load_flow_from_entrypoint(each["entrypoint"], use_placeholder_flow=False)
        flow.validate_parameters(each["parameters"])
        assert each["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
        assert len(each["schedules"]) == 1
        assert each["version"] == "{{ commit.stdout }}"
    stages = yaml.safe_load((HERE / "dvc.yaml").read_text())["stages"]
    assert deployments[-1]["parameters"]["stage"] in stages


def test_a_run_may_miss_two_heartbeats() -> None:
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY

    from epigram.runner.prefect import heartbeat
    from epigram.runner.service.notices import HEARTBEAT_TIMEOUT

    assert 3 * max(PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value(), heartbeat.INTERVAL) <= HEARTBEAT_TIMEOUT


def test_a_notice_that_cannot_be_sent_is_said_without_its_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from epigram.runner.service import notices

    monkeypatch.setattr(notices, "RETRY_DELAYS", (0.0,))
    said: list[str] = []
    with notices.start_relay(f"http://127.0.0.1:9/{SECRET}") as address:
        assert httpx.post(f"{address}x", content="a guess").status_code == httpx.codes.NOT_FOUND
        assert httpx.post(address, content="a text").status_code == httpx.codes.ACCEPTED
        until(lambda: said.append(capsys.readouterr().err) or "".join(said), 30)
    assert "".join(said) == "cannot send a failure notice to EPIGRAM_WEBHOOK: ConnectError\n"
