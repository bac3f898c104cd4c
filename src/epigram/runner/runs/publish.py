"""Results of a run: runs/NAME/ in the main tree, and artifacts in Prefect."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epigram.core.config_types import validate_as
from epigram.core.errors import EpigramError
from epigram.core.files import atomic_folder, read_json, sha256, write_json, write_text
from epigram.core.machine import describe_machine
from epigram.evaluation.quality.data_quality import FILES
from epigram.process.display import echo
from epigram.process.outcome import Outcome
from epigram.process.stage_process import SPEED
from epigram.runner.dvc.graph import Graph
from epigram.runner.runs import experiments, failure_page, run_page
from epigram.runner.workspace.run_folders import set_link
from epigram.runner.workspace.workspace import Workspace

if TYPE_CHECKING:
    from epigram.evaluation.records.summary import Summary
    from epigram.report.runs_index import IndexedRun

FAILED = "-failed"  # suffix of the folder name of a failed run
EXECUTED_STATES = {"Completed", "Failed", "Cancelled"}


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """Final state of a stage, and its working time in seconds."""

    state: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run; `failure` is the outcome of the stage that failed first."""

    name: str
    dataset: str
    revision: str
    wall_seconds: float
    stages: dict[str, StageResult]
    finished: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M"))
    failure: Outcome | None = None
    comparison: dict[str, Any] = field(default_factory=dict)  # empty if nothing was compared

    @property
    def code(self) -> int:
        """Exit code of the run: the failed stage's, or 0."""
        return self.failure.code if self.failure else 0

    @property
    def message(self) -> str:
        """Name and error message of the failed stage, or an empty string."""
        return f"{self.failure.stage}: {self.failure.message}" if self.failure else ""

    @property
    def executed(self) -> int:
        """Number of stages that ran, without cached and restored ones."""
        return sum(record.state in EXECUTED_STATES and record.seconds > 0 for record in self.stages.values())

    @property
    def summary(self) -> Summary | None:
        """The comparison as a Summary, or None."""
        from epigram.evaluation.records.summary import Summary

        return validate_as(Summary, self.comparison) if self.comparison else None

    def as_json(self) -> dict[str, Any]:
        """Return the content of summary.json."""
        return {
            "name": self.name,
            "dataset": self.dataset,
            "revision": self.revision,
            "finished": self.finished,
            "machine": describe_machine(),
            "wall_seconds": round(self.wall_seconds, 3),
            "executed": self.executed,
            "stages": {name: asdict(record) for name, record in self.stages.items()},
            "exit_code": self.code,
            "message": self.message,
            **{key: value for key, value in self.comparison.items() if key not in {"rows", "dataset"}},
            "systems": self.comparison.get("rows", []),
        }


def comparison(graph: Graph, workspace: Workspace) -> dict[str, Any]:
    """Return the pipeline's comparison, with the speeds measured on this machine; empty if there is none."""
    file = graph.find("summary.json")
    if file is None:
        return {}
    summary: dict[str, Any] = read_json(file)
    return {**summary, "rows": [{**row, **_speed(workspace.path, row, graph)} for row in summary["rows"]]}


def write_run(run: Run, graph: Graph, workspace: Workspace) -> Path:
    """Write runs/NAME/ with summary.json, report.html, model/ (the chosen model) and the files about data quality.

    If the run succeeded, runs/latest points to it, unless no stage ran and the comparison equals the comparison in
    runs/latest, whose report has the times of the stages. A run that succeeded is also an experiment of DVC. A failed
    run never replaces a complete one of its name: it is written to runs/NAME-failed. Returns the folder.
    """
    runs, summary_file = workspace.main / "runs", graph.find("summary.json")
    names = chain([run.name, f"{run.name}{FAILED}"], (f"{run.name}{FAILED}-{number}" for number in count(2)))
    folder = next(runs / name for name in names if not run.code or not _is_complete(runs / name))
    with atomic_folder(folder) as temporary:
        write_json(temporary / "summary.json", run.as_json() | {"name": folder.name})
        if run.comparison and summary_file:
            from epigram.report.page import render_run

            about = {
                "name": folder.name,
                "model": f"runs/{folder.name}/model",
                "previous": _previous(run, runs / "latest"),
            }
            render_run(summary_file.with_name("report.html"), temporary / "report.html", run.as_json() | about)
            shutil.copytree(summary_file.with_name("chosen"), temporary / "model")
        for file in filter(None, map(graph.find, FILES)):
            shutil.copyfile(file, temporary / file.name)
    if not run.code and not _repeats(run, runs / "latest"):
        set_link(runs / "latest", run.name)
    if not run.code:
        experiments.save(run.name, workspace)
    if run.comparison:
        write_index(runs)
    if folder.name != run.name:
        echo(f"note: runs/{run.name} is a complete run and stays; this one is in runs/{folder.name}", file=sys.stderr)
    return folder


def _previous(run: Run, latest: Path) -> IndexedRun | None:
    """Return the run `latest` if it is complete, on the same data set, and not of the same name."""
    from epigram.report.runs_index import IndexedRun

    with suppress(EpigramError):  # nothing was compared, or another version wrote it
        found = IndexedRun.of(_complete_summary(latest) or {})
        return found if found.dataset == run.dataset and found.name != run.name else None
    return None


def write_index(runs: Path) -> None:
    """Write runs/index.html, with all complete runs that have a comparison, and with the champions."""
    from epigram.report.runs_index import IndexedRun, render_index
    from epigram.runner.champions import champion

    files = [file for file in runs.glob("[!.]*/summary.json") if not file.parent.is_symlink()]
    files.sort(key=lambda file: file.stat().st_mtime)
    found = []
    for file in files:
        with suppress(EpigramError):  # nothing was compared, or another version wrote it
            found.append(IndexedRun.of(_complete_summary(file.parent) or {}))
    champions = list[IndexedRun]()
    with suppress(EpigramError):  # no repository, or entries that cannot be read
        for each in champion.history(runs.parent)[::-1]:
            name, *score = each.score["name"], each.score["value"], each.score["low"], each.score["high"]
            champions.append(IndexedRun(each.run, each.since, each.dataset, each.system, name, *score))
    if found:
        write_text(runs / "index.html", render_index(found, champions))


def _repeats(run: Run, latest: Path) -> bool:
    """Return whether no stage of the run was executed and the complete run `latest` has an equal comparison."""
    if run.executed or not run.comparison or (before := _complete_summary(latest)) is None:
        return False
    after = run.as_json()
    return all(before.get(key) == after[key] for key in ("dataset", "revision", "systems"))


def _is_complete(folder: Path) -> bool:
    """Return whether `folder` has the summary of a run that succeeded."""
    return _complete_summary(folder) is not None


def _complete_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run that succeeded; None if `folder` has none."""
    try:
        summary = read_json(folder / "summary.json")
    except (EpigramError, OSError):
        return None
    return summary if isinstance(summary, dict) and summary.get("exit_code") == 0 else None


def create_artifacts(run: Run, graph: Graph, folder: Path, log: str = "") -> None:
    """Create the run's artifacts in Prefect's dashboard; each key also lists the artifacts of earlier runs.

    `log` is the address of the log of the stage that failed.
    """
    from prefect.artifacts import create_markdown_artifact

    if run.failure:
        states = {name: stage.state for name, stage in run.stages.items()}
        create_markdown_artifact(failure_page.failure(run.name, run.failure, states, log, folder), key="failure")
    if corpus := graph.find("corpus.json"):
        create_markdown_artifact(run_page.corpus(read_json(corpus)), key="data")
    if summary := run.summary:
        charts = run_page.draw_charts(graph, summary.chosen_system)
        images = [run_page.image(title, svg) for title, svg in charts.items()]
        create_markdown_artifact(run_page.comparison(summary, images), key="comparison")
        create_markdown_artifact(run_page.report(run.name, summary.verdict, folder), key="report")


def _speed(workspace: Path, row: dict[str, Any], graph: Graph) -> dict[str, Any]:
    """Return the measured speed of the row's model; empty if the measurement belongs to another model."""
    file = workspace / SPEED / f"{row['system']}.json"
    outs = [out for stage in graph for out in stage.outs if out.name == row["system"]]
    manifests = [out / f"seed-{row['seeds'][0]}" / "manifest.json" for out in reversed(outs)]  # the final model first
    manifest = next((each for each in manifests if each.is_file()), None)
    if manifest is None or not file.exists():
        return {}
    measured: dict[str, Any] = read_json(file)
    return measured if measured.pop("model", None) == sha256(manifest) else {}
