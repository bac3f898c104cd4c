"""A run whose time for systems ends: it goes on with those that are finished, and its plan has only these."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from epigram.process.outcome import Outcome
from epigram.runner.prefect.pipeline_run import PipelineRun
from epigram.runner.prefect.time_limit import TimeLimit
from tests.support.flows import flow, states
from tests.support.toy import Toy

pytestmark = pytest.mark.usefixtures("prefect_server")

PLAN: dict[str, Any] = {
    "dataset": "toy",
    "seeds": [0],
    "views": {"token": {"tokenizer": "token"}, "wordpiece": {"tokenizer": "wordpiece"}},
    "systems": {"mlp": {"view": "token"}, "bert": {"view": "wordpiece"}},
}


def limited(toy: Toy, seconds: float) -> Any:
    """Run the plan; after `seconds`, systems that are not finished are left out."""
    return flow(toy, plan=PLAN, search=True, systems_until=time.monotonic() + seconds)


def planned(toy: Toy) -> dict[str, Any]:
    """Return the plan of the last run."""
    plan: dict[str, Any] = yaml.safe_load((toy.root / "runs/latest/plan.yaml").read_text())
    return plan


def space(toy: Toy) -> Path:
    return toy.root / ".epigram/workspaces/toy-search"


def test_a_system_that_is_not_finished_in_time_is_left_out(toy: Toy, capfd: pytest.CaptureFixture[str]) -> None:
    toy.tell({"fit@bert": {"sleep": 120}})
    run = limited(toy, 25)
    assert run.wall_seconds < 60 and run.code == 0
    assert "bert: left out" in capfd.readouterr().err
    assert states(run) == dict.fromkeys(("gather", "cut@token", "fit@mlp", "judge"), "Completed")
    assert run.executed == 4 and "fit@bert" in toy.journal() and "fit@bert" not in toy.journal("end")
    assert planned(toy)["systems"] == {"mlp": {"view": "token"}}
    assert planned(toy)["views"] == {"token": {"tokenizer": "token"}}
    assert yaml.safe_load((space(toy) / "params.yaml").read_text())["systems"] == {"mlp": {"view": "token"}}


def test_a_run_in_time_has_all_systems_one_after_another(toy: Toy) -> None:
    toy.tell({"fit@mlp": {"sleep": 2}})
    run = limited(toy, 300)
    assert set(states(run).values()) == {"Completed"} and planned(toy)["systems"] == PLAN["systems"]
    ends = {name: when for name, what, when, _ in toy.events() if what == "end"}
    begins = {name: when for name, what, when, _ in toy.events() if what == "begin"}
    assert ends["fit@mlp"] <= begins["fit@bert"]


@pytest.mark.parametrize("stage", ["fit@mlp", "gather"])
def test_a_failure_of_the_first_system_or_of_the_data_ends_the_run_as_without_a_limit(stage: str, toy: Toy) -> None:
    toy.tell({stage: {"codes": [65]}, "cut@wordpiece": {"sleep": 12}})
    run = limited(toy, 5)
    assert (run.code, states(run)[stage]) == (65, "Failed")


def test_another_system_that_fails_is_left_out(toy: Toy, capfd: pytest.CaptureFixture[str]) -> None:
    toy.tell({"fit@bert": {"codes": [65]}})
    run = limited(toy, 300)
    assert run.code == 0 and states(run)["judge"] == "Completed"
    assert "note: fit@bert failed, so its system is left out" in capfd.readouterr().err
    assert planned(toy)["systems"] == {"mlp": {"view": "token"}}


def test_the_processes_of_the_pass_before_a_failure_are_gone(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for the next stage of a runner that gets no more stages."""
    toy.tell({"fit@bert": {"codes": [65]}})
    waited: list[bool] = []
    leave_out = PipelineRun.leave_out_unfinished

    def left_out(run: PipelineRun) -> bool:
        waiting = [process.child for process in run._runner._processes._idle]
        if again := leave_out(run):
            waited.extend(child.poll() is None for child in waiting)
        return again

    monkeypatch.setattr(PipelineRun, "leave_out_unfinished", left_out)
    assert limited(toy, 300).code == 0
    assert waited and not any(waited)


@pytest.mark.parametrize(("finished", "left_out"), [((), ["bert"]), (("fit@bert",), [])])
def test_a_system_that_is_up_to_date_is_finished_before_its_task_says_so(
    finished: tuple[str, ...], left_out: list[str]
) -> None:
    """In the pass after a failure, the time may be over before all tasks of finished stages have ended."""
    runner: Any = SimpleNamespace(outcomes={"fit@mlp": Outcome(stage="fit@mlp")}, stop=lambda: None)
    systems = {"mlp": ["fit@mlp"], "bert": ["fit@bert"]}
    limit = TimeLimit(time.monotonic() - 1, systems, runner, finished=finished)
    with limit.watch():
        time.sleep(0.5)
    assert limit.left_out == left_out


def test_a_search_ends_if_a_view_fails() -> None:
    """Without the view of an encoder it would choose another plan than asked for."""
    run: Any = object.__new__(PipelineRun)
    run._until = Path("data/pretrained")
    run._runner = SimpleNamespace(outcomes={"cut@wordpiece": Outcome.failed("cut@wordpiece", 65, "damaged")})
    run._limit = TimeLimit(0.0, {"token": ["cut@token"], "wordpiece": ["cut@wordpiece"]}, run._runner)
    assert run._limit.left_out_after(run._failed) == ["wordpiece"]
    assert not run.leave_out_unfinished()


def test_without_a_limit_a_system_that_fails_ends_the_run(toy: Toy) -> None:
    toy.tell({"fit@bert": {"codes": [65]}})
    assert flow(toy, plan=PLAN, search=True).code == 65


def test_folders_of_systems_of_another_run_in_the_workspace_are_removed(toy: Toy) -> None:
    limited(toy, 300)
    systems = {"mlp": PLAN["systems"]["mlp"]}
    flow(toy, plan={**PLAN, "systems": systems, "views": {"token": {"tokenizer": "token"}}}, search=True)
    assert [path.name for path in (space(toy) / "out/fit").iterdir()] == ["mlp"]
