"""Tests that runs/latest points to the last run without a failure."""

from __future__ import annotations

from pathlib import Path

from epigram.core.outcome import Outcome
from epigram.runner.dvc.graph import Graph
from epigram.runner.prefect.publish import Run, write_run
from epigram.runner.workspace.workspace import Workspace


def test_a_failed_run_is_written_and_is_not_the_latest(tmp_path: Path) -> None:
    stages, place = Graph({}, frozenset()), Workspace(tmp_path, tmp_path, "unknown")
    for name, failure in (("good", None), ("bad", Outcome.failed("fit", 65, "row 3 is empty"))):
        run = Run(name=name, dataset="toy", revision="unknown", wall_seconds=1.0, stages={}, failure=failure)
        assert (write_run(run, stages, place) / "summary.json").is_file()
    assert (tmp_path / "runs" / "latest").readlink() == Path("good")
