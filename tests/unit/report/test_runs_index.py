"""Page runs/index.html: complete runs, newest first, with the chosen system, its score and interval."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus
from epigram.process.outcome import Outcome
from epigram.runner.champions import champion
from epigram.runner.champions.champion import Champion, Hashes, Score
from epigram.runner.dvc.graph import Graph
from epigram.runner.runs import publish
from epigram.runner.runs.publish import Run, write_run
from epigram.runner.workspace.workspace import Workspace
from tests.support.evaluation_samples import corpus, system
from tests.support.report_tables import cells


def compared(wrong: int) -> dict[str, Any]:
    """Return the comparison of one system with `wrong` of 100 test texts."""
    return asdict(compare(validate_as(Corpus, corpus()), [system("svm", [{1}], [set(range(wrong))])], 0.05))


def test_the_index_lists_complete_runs_newest_first(tmp_path: Path) -> None:
    place, stages = Workspace(tmp_path, tmp_path, "unknown"), Graph({}, frozenset())
    facts: dict[str, Any] = {"dataset": "sample", "revision": "unknown", "wall_seconds": 1.0, "stages": {}}
    for age, (name, comparison) in enumerate([("old", compared(20)), ("odd", {"rows": [{"system": "svm"}]})]):
        folder = write_run(Run(name=name, comparison=comparison, finished="<then>", **facts), stages, place)
        os.utime(folder / "summary.json", (age, age))
    write_run(Run(name="bad", failure=Outcome.failed("fit", 65, "no good"), **facts), stages, place)
    write_run(Run(name="new", comparison=compared(18), finished="2026-11-28 10:30", **facts), stages, place)
    html = (tmp_path / "runs" / "index.html").read_text(encoding="utf-8")
    _, *lines = cells(html)
    assert [line[:5] for line in lines] == [
        ["new", "2026-11-28 10:30", "sample", "svm", "accuracy 82.0%"],
        ["old", "&lt;then&gt;", "sample", "svm", "accuracy 80.0%"],
    ]
    assert 'href="new/report.html"' in html
    assert html.count('aria-roledescription="circle"') == 2
    latest, later = tmp_path / "runs" / "latest", Run(name="later", **facts)
    assert (before := publish._previous(later, latest)) and before.name == "new"
    assert publish._previous(Run(name="new", **facts), latest) is None
    assert publish._previous(Run(name="later", **facts | {"dataset": "other"}), latest) is None


def test_the_index_has_the_score_of_each_champion_over_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second champion has other data, so the curve has the first and the third one."""
    about = {
        "system": "svm",
        "seed": 0,
        "rows": 90,
        "hashes": Hashes(data="", code="", params="", model=""),
        "model": "m",
    }
    champions = [
        Champion(number=number, run=f"r{number}", dataset=data, since=f"day {number}", score=score(value), **about)
        for number, data, value in ((3, "sample", 0.9), (2, "other", 0.7), (1, "sample", 0.8))
    ]
    monkeypatch.setattr(champion, "history", lambda root: champions)
    place, facts = Workspace(tmp_path, tmp_path, "unknown"), {"revision": "unknown", "wall_seconds": 1.0, "stages": {}}
    run = Run(name="r3", dataset="sample", comparison=compared(20), **facts)
    write_run(run, Graph({}, frozenset()), place)
    html = (tmp_path / "runs" / "index.html").read_text(encoding="utf-8").partition("<h2>Champions</h2>")[2]
    _, *lines = cells(html)
    assert [line[:5] for line in lines] == [
        ["r3", "day 3", "sample", "svm", "accuracy 90.0%"],
        ["r2", "day 2", "other", "svm", "accuracy 70.0%"],
        ["r1", "day 1", "sample", "svm", "accuracy 80.0%"],
    ]
    assert [f"score: {score}" in html for score in ("80%", "90%", "70%")] == [True, True, False]


def score(value: float) -> Score:
    return {"name": "accuracy", "value": value, "low": value - 0.05, "high": value + 0.05}
