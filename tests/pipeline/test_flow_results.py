"""What a flow writes: report, summary and artifacts, and what it says of a failed run or a lost server."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import TryAgainError
from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.runs.publish import Run
from epigram.runner.runs.publish import comparison as comparison_of
from epigram.runner.workspace.workspace import Workspace
from tests.support.flows import flow, task_runs
from tests.support.toy import Toy

pytestmark = pytest.mark.usefixtures("prefect_server")


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

    artifacts = artifacts_of(run)
    assert artifacts.keys() == {"comparison", "data", "report"}
    assert "mlp" in artifacts["comparison"]
    assert "a note" in artifacts["data"]
    assert "report.html" in artifacts["report"]


def artifacts_of(run: Run) -> dict[str, str]:
    """Return the artifacts of a run by their keys."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    with get_client(sync_client=True) as client:
        mine = ArtifactFilterFlowRunId(any_=[task_runs(run)["judge"].flow_run_id])
        found = client.read_artifacts(artifact_filter=ArtifactFilter(flow_run_id=mine))
    return {each.key: each.data for each in found}


def test_a_failure_is_explained_in_an_artifact_with_a_link_to_the_log_of_its_stage(done: Toy) -> None:
    done.change("fit@bert")
    told = {"summary": "2 rows have no *text*", "details": ["row 3", "row 8"]}
    done.tell({"fit@bert": {"codes": [65], "say": ["reading the rows"], "outcome": told}})
    run = flow(done)
    page = artifacts_of(run)["failure"]
    assert f"# {run.name}: fit\\@bert failed\n\n**2 rows have no \\*text\\***\n\n    row 3\n    row 8\n" in page
    assert "Exit code 65: the data break a rule" in page
    assert "* Stages that did not run, because an earlier one failed: judge" in page
    assert (
        f"(../../runs/task-run/{task_runs(run)['fit@bert'].id})\n\n    reading the rows\n    error: told to fail"
        in page
    )
    assert str(done.root / "runs" / run.name) in page


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
