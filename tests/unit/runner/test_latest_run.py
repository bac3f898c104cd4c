"""Tests of the folder of a run: runs/latest is the last one without a failure, and it has the files about the data."""

from __future__ import annotations

from pathlib import Path

from epigram.core.outcome import Outcome
from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.prefect.publish import Run, write_run
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
