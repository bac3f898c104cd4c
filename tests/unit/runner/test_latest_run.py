"""Tests that runs/latest points to the last run without a failure."""

from __future__ import annotations

from pathlib import Path

from epigram.runner.dvc.graph import Graph
from epigram.runner.prefect.publish import Run, write_run
from epigram.runner.workspace.workspace import Workspace


def test_a_failed_run_is_written_and_is_not_the_latest(tmp_path: Path) -> None:
    stages, place = Graph({}, frozenset()), Workspace(tmp_path, tmp_path, "unknown")
    for name, code in (("good", 0), ("bad", 65)):
        run = Run(name=name, dataset="toy", revision="unknown", wall_seconds=1.0, stages={}, code=code)
        assert (write_run(run, stages, place) / "summary.json").is_file()
    assert (tmp_path / "runs" / "latest").readlink() == Path("good")
