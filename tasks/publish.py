"""What a run leaves behind: runs/NAME/ in the main tree, and artifacts in Prefect."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pithy.errors import ParameterError, PithyError
from pithy.files import atomic_folder, read_json, sha256, write_json
from pithy.values import typed
from tasks import markdown, pictures
from tasks.graph import Graph
from tasks.workspace import Place

if TYPE_CHECKING:
    from pithy.evaluation.summary import Summary

SPEED = Path("data/speed")  # measured times: no output of DVC's, whose lock is the same on every machine
EXECUTED = {"Completed", "Failed", "Cancelled"}


@dataclass(frozen=True, kw_only=True)
class Record:
    """How one stage ended, after how many seconds of work."""

    state: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run. `code` is 0 or the exit code of the stage that failed first, `message` what it said."""

    name: str
    dataset: str
    revision: str
    wall_seconds: float
    stages: dict[str, Record]
    code: int = 0
    message: str = ""
    comparison: dict[str, Any] = field(default_factory=dict)  # empty where nothing was compared

    @property
    def executed(self) -> int:
        """How many stages ran; what was cached or restored did not."""
        return sum(record.state in EXECUTED and record.seconds > 0 for record in self.stages.values())

    @property
    def summary(self) -> Summary | None:
        """The comparison, typed."""
        from pithy.evaluation.summary import Summary

        return typed(Summary, self.comparison) if self.comparison else None

    def as_json(self) -> dict[str, Any]:
        """The content of summary.json."""
        return {
            "name": self.name,
            "dataset": self.dataset,
            "revision": self.revision,
            "wall_seconds": round(self.wall_seconds, 3),
            "executed": self.executed,
            "stages": {name: asdict(record) for name, record in self.stages.items()},
            "exit_code": self.code,
            "message": self.message,
            **{key: value for key, value in self.comparison.items() if key not in {"rows", "dataset"}},
            "systems": self.comparison.get("rows", []),
        }


class RunFailedError(PithyError):
    """A stage of the run failed."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.message)
        self.run = run


def comparison(graph: Graph, place: Place) -> dict[str, Any]:
    """The comparison that the pipeline wrote, with the speeds measured on this machine; empty where there is none."""
    file = graph.find("summary.json")
    if file is None:
        return {}
    summary: dict[str, Any] = read_json(file)
    return {**summary, "rows": [{**row, **_speed(place.path, row, graph)} for row in summary["rows"]]}


def write_run(run: Run, graph: Graph, place: Place) -> Path:
    """Write runs/NAME/: summary.json, report.html and model/, the chosen model; a run without fault is runs/latest."""
    folder, compared = place.main / "runs" / run.name, graph.find("summary.json")
    with atomic_folder(folder) as temporary:
        write_json(temporary / "summary.json", run.as_json())
        if run.comparison and compared:
            from pithy.evaluation.report import render_run

            render_run(compared.with_name("report.html"), temporary / "report.html", run.as_json())
            shutil.copytree(compared.with_name("chosen"), temporary / "model")
    if not run.code:
        point(folder.parent / "latest", run.name)
    return folder


def create_artifacts(run: Run, graph: Graph, folder: Path) -> None:
    """What Prefect's dashboard shows beside the run; each key lists the same artifact of the runs before."""
    from prefect.artifacts import create_markdown_artifact

    for key, text in _artifacts(run, graph, folder).items():
        create_markdown_artifact(text, key=key)


def _artifacts(run: Run, graph: Graph, folder: Path) -> dict[str, str]:
    corpus = graph.find("corpus.json")
    artifacts = {"data": markdown.corpus(read_json(corpus))} if corpus else {}
    if summary := run.summary:
        drawn = pictures.of_run(graph, summary.chosen_system)
        shown = [markdown.picture(title, svg) for title, svg in drawn.items()]
        artifacts |= {
            "comparison": markdown.comparison(summary, shown),
            "report": markdown.report(run.name, summary.verdict, folder),
        }
    return artifacts


def _speed(workspace: Path, row: dict[str, Any], graph: Graph) -> dict[str, Any]:
    """What was measured of the row's model; nothing where the file is of another model."""
    file, manifest = workspace / SPEED / f"{row['system']}.json", _manifest(graph, row["system"], row["seeds"][0])
    if manifest is None or not file.exists():
        return {}
    measured: dict[str, Any] = read_json(file)
    return measured if measured.pop("model", None) == sha256(manifest) else {}


def _manifest(graph: Graph, system: str, seed: int) -> Path | None:
    """The manifest of a system's final model: what the last stage that wrote one made of it."""
    outs = [out for stage in graph for out in stage.outs if out.name == system]
    files = [out / f"seed-{seed}" / "manifest.json" for out in reversed(outs)]
    return next((file for file in files if file.is_file()), None)


def point(link: Path, name: str) -> None:
    """Let the symbolic link point to `name`, at no moment to nothing. What a killed process left is removed.

    Raises ParameterError where something else is in its place.
    """
    refuse_other(link)
    for left in link.parent.glob(f".{link.name}.*"):
        if left.is_symlink() and left.suffix[1:].isdecimal() and not _runs(int(left.suffix[1:])):
            left.unlink(missing_ok=True)
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.symlink_to(name, target_is_directory=True)
    temporary.replace(link)


def refuse_other(link: Path) -> None:
    """Raise ParameterError where a file or folder is in the place of a link of ours."""
    if os.path.lexists(link) and not link.is_symlink():
        raise ParameterError(f"{link} is no link, and pithy keeps one there: move it away, and start again")


def _runs(process: int) -> bool:
    """Whether another process of this number runs."""
    with suppress(PermissionError):  # it is another user's
        try:
            os.kill(process, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return process != os.getpid()
