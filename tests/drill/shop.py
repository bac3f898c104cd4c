"""Repository for the faults of retraining: shop reviews, a quick pipeline and a champion.

It is prepared once in three states; a trial copies one of them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.drill.reference import ROOT, environment
from tests.support.shop import SOURCE, lay_out

CROWNED = "crowned"  # a first champion, and no new rows
CHALLENGED = "challenged"  # new rows are ingested and the pipeline has run on them, but its model is not promoted yet
PROMOTED = "promoted"  # that model is the second champion
CODE = ("src", "flows", "tasks")
BROKEN = "broken"  # a data set whose file is missing, so every run on it fails
# Runs with one of these overrides work in workspaces of their own, which are also prepared.
OVERRIDES = tuple(("--set", f"evaluate.resamples={number}") for number in (201, 202))


@dataclass(frozen=True)
class Window:
    """Part of a command's steps.

    It starts at the first step that matches `begin`. It ends at the first later step that matches `last` or, if
    `final`, at the last one that does. Without `last`, it ends at the last step of the command.
    """

    begin: str
    module: str = "flows.retrain"
    arguments: tuple[str, ...] = ()
    last: str = ""
    final: bool = False
    variant: str = ""

    def count(self, steps: list[str]) -> int:
        """Return how many of a command's `steps` are in the window. Raises ValueError if no step matches."""
        first = next((place for place, step in enumerate(steps) if re.search(self.begin, step)), None)
        if first is None:
            raise ValueError(f"no step matches {self.begin}: {steps}")
        ends = [place for place, step in enumerate(steps) if place >= first and re.search(self.last, step)]
        if not ends:
            raise ValueError(f"no step after {steps[first]} matches {self.last}: {steps}")
        return (ends[-1] if self.final or not self.last else ends[0]) - first + 1


TAKING = Window(
    r"local/incoming|_live\.parquet", last=r"local/incoming/(taken/|working$)", final=True
)  # until the file is archived
PROMOTING = Window(r"reference\.json|^git read-tree")
ROLLING_BACK = Window(".", arguments=("--rollback",))
RESTORING = replace(ROLLING_BACK, variant="from DVC's cache")  # the model to restore was deleted
NAMING = Window("^connect", "flows.pipeline")  # a run's first request to the server: it has no name yet


@dataclass(frozen=True)
class Shop:
    """The prepared states, each a subfolder of `folder`; `folder`/code contains the project's code."""

    folder: Path
    steps: dict[Window, int] = field(default_factory=dict)
    models: dict[int, str] = field(default_factory=dict)  # number of a champion → SHA-256 of its model's manifest

    @property
    def python_path(self) -> str:
        """PYTHONPATH of the commands."""
        return f"{self.folder / 'code'}:{self.folder / 'code' / 'src'}"

    @property
    def stepper(self) -> Path:
        """Script that stops a command before a step."""
        return self.folder / "code" / "stepper.py"


def lay_out_shop(folder: Path) -> Shop:
    """Copy the project's code and create the repository before its first run, which is the state `new`."""
    for name in CODE:
        shutil.copytree(ROOT / name, folder / "code" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("stepper.py"), folder / "code")
    broken = SOURCE.replace("name: shop", f"name: {BROKEN}").replace("local/shop.csv", "local/missing.csv")
    lay_out(folder / "new", environment(folder / "new"), **{f"data/sources/{BROKEN}.yaml": broken})
    return Shop(folder)


def move_worktrees(repo: Path, old: Path) -> None:
    """Update the absolute paths that git stores for the worktrees of a copied repository."""
    for note in [*(repo / ".git/worktrees").glob("*/gitdir"), *(repo / ".epigram/workspaces").glob("*/.git")]:
        note.write_text(note.read_text().replace(f"{old}/", f"{repo}/"))


def steps_of(log: Iterable[str]) -> list[str]:
    """Return the steps in a log."""
    return [line.rstrip("\n").partition(" ")[2] for line in log]
