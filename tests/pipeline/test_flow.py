"""The flow: one Prefect task for each stage, state from DVC's result, retries by exit code, lost runs."""

from __future__ import annotations

import pytest

from epigram.core.errors import DataError, ParameterError
from tests.support.flows import flow, states, task_runs
from tests.support.toy import NEEDS, Toy

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_run_completes_and_the_next_is_cached(toy: Toy) -> None:
    first = flow(toy)
    assert set(states(first).values()) == {"Completed"}
    assert first.executed == 6
    toy.forget()

    second = flow(toy)
    assert set(states(second).values()) == {"Cached"}
    assert second.executed == 0
    assert toy.journal() == []


def test_a_deleted_output_is_restored(done: Toy) -> None:
    (done.root / "out" / "fit" / "mlp" / "result.txt").unlink()
    run = flow(done)
    assert states(run).pop("fit@mlp") == "Restored"
    assert set(states(run).values()) == {"Restored", "Cached"}
    assert (run.executed, done.journal()) == (0, [])


def test_a_changed_parameter_runs_its_stage_alone_where_the_output_stays(done: Toy) -> None:
    done.change("fit@mlp")
    run = flow(done)
    assert states(run).pop("fit@mlp") == "Completed"
    assert states(run)["judge"] == "Cached"
    assert (run.executed, done.journal()) == (1, ["fit@mlp"])


def test_exit_69_twice_is_mended_by_two_retries(done: Toy) -> None:
    done.change("judge")
    done.tell({"judge": {"codes": [69, 69]}})
    run = flow(done)
    assert states(run)["judge"] == "Completed"
    assert done.journal() == ["judge"] * 3
    assert (run.code, run.executed) == (0, 1)


def test_a_third_failure_with_69_is_final(done: Toy) -> None:
    done.change("judge")
    done.tell({"judge": {"codes": [69, 69, 69, 69]}})
    run = flow(done)
    assert (states(run)["judge"], run.code) == ("Failed", 69)
    assert done.journal() == ["judge"] * 3


def test_exit_65_is_final_and_only_its_branch_ends(done: Toy) -> None:
    done.change("fit@mlp", "fit@bert")
    told = {"summary": "1 row is empty", "details": ["row 3 is empty"]}
    done.tell({"fit@mlp": {"codes": [65], "outcome": told}})
    run = flow(done)
    assert states(run) == {
        "gather": "Cached",
        "cut@token": "Cached",
        "cut@wordpiece": "Cached",
        "fit@mlp": "Failed",
        "fit@bert": "Completed",
        "judge": "NotReady",
    }
    assert sorted(done.journal()) == ["fit@bert", "fit@mlp"]
    assert run.code == DataError.code
    assert run.message == "fit@mlp: 1 row is empty\nrow 3 is empty"


def test_independent_stages_run_side_by_side(done: Toy) -> None:
    done.change("fit@mlp", "fit@bert")
    done.tell({"fit@mlp": {"sleep": 3}, "fit@bert": {"sleep": 3}})
    flow(done, max_parallel=2)
    when = {(name, event): time for name, event, time, _ in done.events()}
    assert when["fit@mlp", "begin"] < when["fit@bert", "end"]
    assert when["fit@bert", "begin"] < when["fit@mlp", "end"]


def test_max_parallel_1_runs_one_after_the_other(done: Toy) -> None:
    done.change("fit@mlp", "fit@bert")
    flow(done, max_parallel=1)
    assert [event for _, event, *_ in done.events()] == ["begin", "end"] * 2


def test_the_lock_is_the_one_that_dvc_writes(toy: Toy) -> None:
    toy.tell({"cut@token": {"sleep": 2}})  # the other branch finishes first
    flow(toy)
    own = (toy.root / "dvc.lock").read_text()
    toy.shell("git", "clean", "-fdxq")
    toy.shell("dvc", "repro", "--quiet")
    assert (toy.root / "dvc.lock").read_text() == own


def test_prefect_shows_the_graph_the_states_and_the_message(done: Toy) -> None:
    from prefect.client.orchestration import get_client

    done.change("fit@bert")
    done.tell({"fit@bert": {"codes": [65], "outcome": {"summary": "1 row is empty", "details": ["row 3 is empty"]}}})
    run = flow(done)
    shown = task_runs(run)
    ids = {each.id: name for name, each in shown.items()}
    needs = {name: {ids[need.id] for need in each.task_inputs.get("wait_for", [])} for name, each in shown.items()}
    assert needs == NEEDS
    assert shown["fit@bert"].state_name == "Failed"
    assert shown["fit@bert"].state.message == "1 row is empty"
    with get_client(sync_client=True) as client:
        assert client.read_flow_run(shown["judge"].flow_run_id).state_name == "Failed"


def test_overrides_run_apart_and_the_second_time_nothing_runs(toy: Toy) -> None:
    (toy.root / "step.py").write_text((toy.root / "step.py").read_text().replace('" ".join', '"edited ".join'))
    run = flow(toy, systems=("mlp",), seeds=(0, 1))
    assert set(states(run)) == {"gather", "cut@token", "fit@mlp", "judge"}
    assert run.executed == 4
    assert not (toy.root / "out").exists()
    assert (toy.root / "runs" / run.name / "summary.json").exists()

    toy.forget()
    assert flow(toy, systems=("mlp",), seeds=(0, 1)).executed == 0
    assert toy.journal() == []


def test_a_system_with_an_unknown_setting_runs_nothing(toy: Toy) -> None:
    with pytest.raises(ParameterError, match="epochss"):
        flow(toy, changes={"systems.mlp.train.epochss": 2})
    assert toy.journal() == []
