"""The flow: one Prefect task for each stage, state from DVC's result, retries by exit code, lost runs."""

from __future__ import annotations

import json
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, ParameterError, TryAgainError
from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.prefect.publish import Run, RunFailedError
from epigram.runner.prefect.publish import comparison as comparison_of
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import Workspace
from tests.support.toy import NEEDS, Toy

pytestmark = pytest.mark.usefixtures("prefect_server")

TWICE = (0.1, 0.1)


def flow(toy: Toy, **wanted: Any) -> Run:
    """Run the flow in this process; return the run, even if it failed."""
    from flows.pipeline import pipeline

    state = pipeline(Request(root=toy.root, **wanted), retry_delays=TWICE, return_state=True)
    result = state.result(raise_on_failure=False)
    if isinstance(result, RunFailedError):
        assert state.is_failed()
        return result.run
    if isinstance(result, BaseException):
        raise result
    assert state.is_completed()
    assert isinstance(result, Run)
    return result


def states(run: Run) -> dict[str, str]:
    return {name: record.state for name, record in run.stages.items()}


def task_runs(run: Run) -> dict[str, Any]:
    """Return Prefect's task runs of the run, by name."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    last = time.monotonic() + 30  # the server stores task events in batches, a second or more later
    with get_client(sync_client=True) as client:
        while True:
            found = client.read_task_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[run.name])))
            shown = {each.name: each for each in found}
            run_flow = all(each.state_name in {*states(run).values(), "Completed"} for each in found)
            if (run_flow and shown.keys() == run.stages.keys() | {"publish"}) or time.monotonic() > last:
                assert shown.pop("publish").state_name == "Completed"
                return shown
            time.sleep(0.2)


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


def comparison() -> dict[str, Any]:
    """Return a comparison as the last stage of the pipeline writes it."""
    row = {
        "system": "mlp", "seeds": [0], "dev_accuracy": 0.8, "test_accuracy": 0.75, "dev_score": 0.8,
        "test_score": 0.75, "test_low": 0.7, "test_high": 0.8, "dev_std": None, "test_std": None, "macro_f1": 0.7,
        "ece": 0.1, "parameters": 1000, "parameters_pruned": 800, "depth": None, "depth_pruned": None, "flops": 1e6,
        "ms_per_text": 9.0, "texts_per_second": 1.0, "outcome": "chosen", "p_dev": None, "p_test": None,
        "test_outcome": None,
    }  # fmt: skip
    return {
        "dataset": "toy", "language": "en", "task": "single", "score": "accuracy", "confidence": 0.95, "alpha": 0.05,
        "splits": {"train": 8, "dev": 1, "test": 1}, "notes": [], "chosen_system": "mlp", "chosen_seed": 0,
        "cheapest_tied": None, "verdict": "mlp is chosen.", "rows": [row],
    }  # fmt: skip


def test_a_run_leaves_a_report_a_summary_and_artifacts(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    import epigram.report.page

    def render_run(page: Path, out: Path, run: dict[str, Any]) -> None:
        out.write_text(page.read_text() + run["name"])

    monkeypatch.setattr(epigram.report.page, "render_run", render_run)
    corpus = {"name": "toy", "labels": ["a", "b"], "rows": {"train": 8}, "notes": ["a note"]}
    compared = {"summary.json": json.dumps(comparison()), "report.html": "the page of ", "chosen/config.json": "{}"}
    model = {"seed-0/manifest.json": "the model"}
    files = {"gather": {"corpus.json": json.dumps(corpus)}, "fit@mlp": model, "judge": compared}
    toy.tell({stage: {"files": written} for stage, written in files.items()})
    (toy.root / "data" / "speed").mkdir()
    speed = {"ms_per_text": 0.5, "texts_per_second": 2000.0, "model": sha256(b"the model").hexdigest()}
    (toy.root / "data" / "speed" / "mlp.json").write_text(json.dumps(speed))

    run = flow(toy, name="mine")
    folder = toy.root / "runs" / "latest"
    assert folder.resolve().name == "mine" == run.name
    assert (folder / "report.html").read_text() == "the page of mine"
    assert (folder / "model" / "config.json").read_text() == "{}"
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["name"], summary["dataset"], summary["executed"]) == ("mine", "toy", 6)
    assert summary["revision"].endswith("-dirty")
    assert summary["stages"]["judge"]["state"] == "Completed"
    assert summary["stages"]["judge"]["seconds"] > 0
    assert summary["wall_seconds"] > summary["stages"]["judge"]["seconds"]
    assert [(row["system"], row["ms_per_text"]) for row in summary["systems"]] == [("mlp", 0.5)]
    assert "model" not in summary["systems"][0]

    with get_client(sync_client=True) as client:
        mine = ArtifactFilterFlowRunId(any_=[task_runs(run)["judge"].flow_run_id])
        artifacts = {
            each.key: each.data for each in client.read_artifacts(artifact_filter=ArtifactFilter(flow_run_id=mine))
        }
    assert "mlp" in artifacts["comparison"]
    assert "a note" in artifacts["data"]
    assert "report.html" in artifacts["report"]


@pytest.mark.parametrize("measured", ["another model", None])
def test_the_speed_of_another_model_is_not_told(tmp_path: Path, measured: str | None) -> None:
    row = {"system": "mlp", "seeds": [3, 4]}
    files = {
        "judge/summary.json": json.dumps({"rows": [row]}),
        "trained/mlp/seed-3/manifest.json": "another model",
        "final/mlp/seed-3/manifest.json": "the model",
        "data/speed/mlp.json": json.dumps(
            {"ms_per_text": 0.5, "model": measured and sha256(measured.encode()).hexdigest()}
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    outs = {"fit": "trained/mlp", "cut": "final/mlp", "judge": "judge"}
    stages = Graph({name: Stage(name, frozenset(), (tmp_path / out,)) for name, out in outs.items()})
    assert comparison_of(stages, Workspace(tmp_path, tmp_path, "unknown"))["rows"] == [row]


def test_a_failed_run_is_written_and_latest_stays(done: Toy) -> None:
    good = flow(done)
    done.change("judge")
    done.tell({"judge": {"codes": [65]}})
    bad = flow(done, name="bad")
    assert json.loads((done.root / "runs" / "bad" / "summary.json").read_text())["exit_code"] == bad.code == 65
    assert (done.root / "runs" / "latest").resolve().name == good.name


def test_a_server_that_is_gone_is_said_to_be() -> None:
    from prefect import flow
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from epigram.runner.prefect.execution import run_flow
    from epigram.runner.service.server import Server

    @flow
    def nothing() -> None:
        """Do nothing; the flow stops before it calls this."""

    nobody = Server("http://127.0.0.1:9")
    lost = pytest.raises(TryAgainError, match=r"server at http://127\.0\.0\.1:9 stopped responding; rerun")
    with temporary_settings({PREFECT_API_URL: f"{nobody.url}/api"}), lost:
        run_flow(nobody, lambda: nothing(return_state=True))


def test_a_final_state_that_the_server_gives_back_without_its_result_is_a_reason_to_try_again() -> None:
    from prefect.states import Completed

    from epigram.runner.prefect.execution import run_flow
    from epigram.runner.service.server import Server

    with pytest.raises(TryAgainError, match="rerun the command"):
        run_flow(Server("http://127.0.0.1:9"), Completed)


@pytest.mark.parametrize("note", ["", "# whose lock this is\n"])
def test_a_stage_that_ran_anew_is_written_where_it_stood_in_the_lock(done: Toy, note: str) -> None:
    lock = done.root / "dvc.lock"
    lock.write_text(note + lock.read_text())
    before = lock.read_text()
    done.change("fit@bert")
    flow(done)
    own = lock.read_text()
    assert own != before and own.startswith(note)
    lock.write_text(before)
    done.shell("dvc", "repro", "--quiet", "--force", "--single-item", "fit@bert")
    done.shell("dvc", "repro", "--quiet", "--force", "--single-item", "judge")
    assert lock.read_text() == own
