"""Tests of the folder of a run: it is kept when a later run fails, runs/latest is the last run without a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epigram.core.files import read_json, sha256
from epigram.process.outcome import Outcome
from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.runs.publish import Run, StageResult, write_run
from epigram.runner.workspace.workspace import Workspace


def test_a_failed_run_is_written_and_is_not_the_latest(tmp_path: Path) -> None:
    stages, place = Graph({}, frozenset()), Workspace(tmp_path, tmp_path, "unknown")
    for name, failure in (("good", None), ("bad", Outcome.failed("fit", 65, "row 3 is empty"))):
        run = Run(name=name, dataset="toy", revision="unknown", wall_seconds=1.0, stages={}, failure=failure)
        assert (write_run(run, stages, place) / "summary.json").is_file()
    assert (tmp_path / "runs" / "latest").readlink() == Path("good")


def test_a_run_has_the_files_about_data_quality_that_its_stages_wrote(tmp_path: Path) -> None:
    (tmp_path / "examined").mkdir()
    (tmp_path / "examined/suspects.csv").write_text("row,label\n")
    stages = Graph({"x": Stage("x", frozenset(), (tmp_path / "examined",))})
    run = Run(name="good", dataset="toy", revision="unknown", wall_seconds=1.0, stages={})
    folder = write_run(run, stages, Workspace(tmp_path, tmp_path, "unknown"))
    assert {path.name for path in folder.iterdir()} == {"summary.json", "suspects.csv"}
    assert (folder / "suspects.csv").read_text() == "row,label\n"


def written(main: Path, name: str, failure: Outcome | None = None) -> Path:
    """Write a run of this name, with a model if it has no failure; return its folder."""
    run = Run(name=name, dataset="toy", revision="unknown", wall_seconds=1.0, stages={}, failure=failure)
    folder = write_run(run, Graph({}, frozenset()), Workspace(main, main, "unknown"))
    if failure is None:
        (folder / "model").mkdir()
        (folder / "model" / "model.safetensors").write_text(f"weights of {name}")
    return folder


@pytest.mark.parametrize(
    ("seconds", "about", "latest"),
    [
        (0.0, {}, "first"),
        (2.5, {}, "again"),
        (0.0, {"dataset": "other"}, "again"),
        (0.0, {"revision": "other"}, "again"),
        (0.0, {"comparison": {"rows": [{"system": "b"}]}}, "again"),
    ],
)
def test_a_run_with_nothing_to_do_is_not_the_latest(
    seconds: float, about: dict[str, Any], latest: str, tmp_path: Path
) -> None:
    place, stages = Workspace(tmp_path, tmp_path, "unknown"), Graph({}, frozenset())
    facts = {"dataset": "toy", "revision": "one", "wall_seconds": 1.0, "comparison": {"rows": [{"system": "a"}]}}
    for name, worked, changed in (("first", 9.0, {}), ("again", seconds, about)):
        done = {"fit": StageResult(state="Completed" if worked else "Cached", seconds=worked)}
        write_run(Run(name=name, stages=done, **{**facts, **changed}), stages, place)
    assert (tmp_path / "runs" / "latest").readlink() == Path(latest)


def test_a_failed_run_never_replaces_a_complete_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = written(tmp_path, "a") / "model" / "model.safetensors"
    digest = sha256(model)
    written(tmp_path, "b")
    assert capsys.readouterr().err == ""
    for code in (65, 75):  # the second failure replaces the first one
        folder = written(tmp_path, "a", Outcome.failed("fit", code, "no good"))
        assert folder == tmp_path / "runs" / "a-failed"
        summary = read_json(folder / "summary.json")
        assert (summary["name"], summary["exit_code"]) == ("a-failed", code)
        said = "note: runs/a is a complete run and stays; this one is in runs/a-failed\n"
        assert capsys.readouterr().err == said
    assert sha256(model) == digest
    assert read_json(tmp_path / "runs" / "a" / "summary.json")["exit_code"] == 0
    assert (tmp_path / "runs" / "latest").readlink() == Path("b")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["a", "a-failed", "b", "latest"]


def test_a_complete_run_with_the_name_of_a_failure_stays(tmp_path: Path) -> None:
    kept = [written(tmp_path, name) / "model" for name in ("a", "a-failed")]
    assert written(tmp_path, "a", Outcome.failed("fit", 65, "no good")).name == "a-failed-2"
    assert written(tmp_path, "a", Outcome.failed("fit", 65, "no good")).name == "a-failed-2"
    assert all(model.is_dir() for model in kept)


@pytest.mark.parametrize("summary", [None, "{", "[]", '{"exit_code": 65}'])
def test_a_folder_that_is_no_complete_run_is_replaced(summary: str | None, tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    if summary is not None:
        (tmp_path / "runs" / "a" / "summary.json").write_text(summary)
    assert written(tmp_path, "a", Outcome.failed("fit", 65, "no good")).name == "a"


def test_a_complete_run_replaces_one_of_its_name(tmp_path: Path) -> None:
    model = written(tmp_path, "a") / "model"
    (model / "old").touch()
    assert written(tmp_path, "a") / "model" == model and not (model / "old").exists()
