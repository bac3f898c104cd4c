"""The repository of the faults of retraining: shop reviews, a quick pipeline, a champion.

It is prepared once in three states; a trial copies one of them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.drill.reference import ROOT, environment
from tests.pipeline.shop import SOURCE, lay_out

CROWNED = "crowned"  # there is a first champion, and nothing new
CHALLENGED = "challenged"  # new rows are in, the pipeline has run on them, and its model is not promoted yet
PROMOTED = "promoted"  # that model is the second champion
CODE = ("src", "flows", "tasks")
BROKEN = "broken"  # a data set whose file is missing: every run on it fails
# Two runs with one of these work in folders of their own, which are prepared too.
OVERRIDES = tuple(("--set", f"evaluate.resamples={number}") for number in (201, 202))


@dataclass(frozen=True)
class Window:
    """A part of a command's work: its steps from the first that matches `begin` to one that matches `last`.

    That is the first such step, with `final` the last one; without `last`, the last step of all.
    """

    begin: str
    module: str = "flows.retrain"
    arguments: tuple[str, ...] = ()
    last: str = ""
    final: bool = False
    variant: str = ""

    def count(self, steps: list[str]) -> int:
        """The number of steps in the window, of all the steps of a command. Raises ValueError for a window without."""
        first = next((place for place, step in enumerate(steps) if re.search(self.begin, step)), None)
        if first is None:
            raise ValueError(f"no step matches {self.begin}: {steps}")
        ends = [place for place, step in enumerate(steps) if place >= first and re.search(self.last, step)]
        if not ends:
            raise ValueError(f"no step after {steps[first]} matches {self.last}: {steps}")
        return (ends[-1] if self.final or not self.last else ends[0]) - first + 1


TAKING = Window(
    r"local/incoming|_live\.parquet", last=r"local/incoming/(taken/|working$)", final=True
)  # until it is archived
PROMOTING = Window(r"reference\.json|^git read-tree")
ROLLING_BACK = Window(".", arguments=("--rollback",))
RESTORING = replace(ROLLING_BACK, variant="from DVC's cache")  # the model to go back to was deleted
NAMING = Window("^connect", "flows.pipeline")  # a run asks the server for the first time: it has no name yet


@dataclass(frozen=True)
class Shop:
    """The prepared states, each a folder of `folder`; `folder`/code has the project's code."""

    folder: Path
    steps: dict[Window, int] = field(default_factory=dict)
    models: dict[int, str] = field(default_factory=dict)  # number of a champion → SHA-256 of its model's manifest

    @property
    def python_path(self) -> str:
        """Where commands find the code."""
        return f"{self.folder / 'code'}:{self.folder / 'code' / 'src'}"

    @property
    def stepper(self) -> Path:
        """The program that stops a command before a step."""
        return self.folder / "code" / "stepper.py"


def lay_out_shop(folder: Path) -> Shop:
    """Copy the project's code, and make the repository as it is before its first run: the state `new`."""
    for name in CODE:
        shutil.copytree(ROOT / name, folder / "code" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("stepper.py"), folder / "code")
    broken = SOURCE.replace("name: shop", f"name: {BROKEN}").replace("local/shop.csv", "local/missing.csv")
    lay_out(folder / "new", environment(folder / "new"), **{f"data/sources/{BROKEN}.yaml": broken})
    return Shop(folder)


def move_worktrees(repo: Path, old: Path) -> None:
    """Let the worktrees of a copied repository know where they are: git notes absolute paths."""
    for note in [*(repo / ".git/worktrees").glob("*/gitdir"), *(repo / ".pithy/workspaces").glob("*/.git")]:
        note.write_text(note.read_text().replace(f"{old}/", f"{repo}/"))


def steps_of(log: Iterable[str]) -> list[str]:
    """The steps that a log names."""
    return [line.rstrip("\n").partition(" ")[2] for line in log]
