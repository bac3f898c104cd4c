"""Repository for the faults of retraining: shop reviews, a quick pipeline and champions, in two prepared states."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from dataclasses import dataclass, field
from math import gcd
from pathlib import Path

import polars as pl

from tests.drill.bench import ROOT
from tests.drill.place import Ended, Place, Running, environment, state_of
from tests.drill.standing import TAG, Standing, model_hash, record, standing
from tests.support.shop import SOURCE, lay_out, reviews

NEW, CROWNED, PROMOTED = "new", "crowned", "promoted"  # without a champion, with the first, and with the second
CODE = ("src", "flows", "tasks")
BROKEN = "broken"  # a data set whose file is missing, so every run on it fails
# Runs with one of these overrides work in workspaces of their own, which are also prepared.
OVERRIDES = tuple(("--set", f"evaluate.resamples={number}") for number in (201, 202))
INBOX = Path("data/local/incoming")
BATCH = "monday.csv"


@dataclass(frozen=True)
class Window:
    """Part of a command's steps: from the first that matches `begin` to the last that matches `last`."""

    begin: str
    command: str = "retrain"
    arguments: tuple[str, ...] = ()
    last: str = ""
    variant: str = ""

    def count(self, steps: list[str]) -> int:
        """Return how many of a command's `steps` are in the window. Raises ValueError if no step matches."""
        first = [place for place, step in enumerate(steps) if re.search(self.begin, step)][:1]
        ends = [place for place, step in enumerate(steps) if first and place >= first[0] and re.search(self.last, step)]
        if not ends:
            raise ValueError(f"no step matches {self}: {steps}")
        return ends[-1] - first[0] + 1


TAKING = Window(r"local/incoming|_live\.parquet", last=r"local/incoming/(taken/|working$)")  # until it is archived
PROMOTING = Window(r"reference\.json|^git read-tree")
ROLLING_BACK = Window(".", arguments=("--rollback",))
RESTORING = Window(".", arguments=("--rollback",), variant="from DVC's cache")  # the model to restore was deleted
NAMING = Window("^connect", "run")  # a run's first request to the server: it has no name yet


@dataclass(frozen=True)
class Shop:
    """The prepared states, each a subfolder of `folder`; `folder`/code contains the project's code."""

    folder: Path
    steps: dict[Window, int] = field(default_factory=dict)
    models: dict[int, str] = field(default_factory=dict)  # number of a champion → SHA-256 of its model's manifest


@dataclass(frozen=True)
class Stopped:
    """A command stopped before the step `step`, which is empty if the command ended without stopping."""

    running: Running
    step: str
    number: int
    count: int

    def __str__(self) -> str:
        return f"step {self.number} of {self.count}, {self.step}" if self.step else f"no step {self.number}"

    def resume(self) -> Ended:
        """Continue the command until it ends."""
        self.running.send(signal.SIGCONT)
        return self.running.wait()


class ShopBench(Place):
    """Place whose repository is a copy of a prepared shop's state; commands can be stopped before a step."""

    def __init__(self, folder: Path, shop: Shop, server: str, *, mounted: bool) -> None:
        super().__init__(folder, server, mounted=mounted)
        self.shop, self.before = shop, Standing()

    def begin(self, state: str) -> None:
        """Copy a state of the shop into the place."""
        shutil.copytree(self.shop.folder / state, self.repo, symlinks=True)
        home = self.shop.folder / f"{state}-home.txt"
        if home.exists():
            move_worktrees(self.repo, Path(home.read_text()))
        for name in ("tmp", "site"):
            (self.room / name).mkdir()
        self.before = standing(self.repo)

    def keep(self, state: str) -> None:
        """Store the repository as a state of the shop, and the path where it was made."""
        shutil.copytree(self.repo, self.shop.folder / state, symlinks=True)
        (self.shop.folder / f"{state}-home.txt").write_text(str(self.repo))

    def settings(self) -> dict[str, str]:
        """Return the environment variables of a trial's commands that a user does not have."""
        code = self.shop.folder / "code"
        return super().settings() | {"PYTHONPATH": f"{code}:{code / 'src'}", "PREFECT_API_URL": self.server}

    def retrain(self, *arguments: str) -> Running:
        """Start `epigram retrain`."""
        return self.start(sys.executable, "-m", "epigram.cli", "retrain", *arguments)

    def pipeline(self, *arguments: str) -> Running:
        """Start the command behind `make run`."""
        return self.start(sys.executable, "-m", "epigram.cli", "run", *arguments)

    def stepped(self, window: Window, at: int, *arguments: str) -> tuple[Running, Path]:
        """Start the command of a window, which stops before step `at`; return it and the log of its steps."""
        log = self.folder / f"steps-{len(self.outputs)}.txt"
        log.unlink(missing_ok=True)
        command = [str(self.shop.folder / "code/stepper.py"), str(log), window.begin, str(at), "epigram.cli"]
        return self.start(sys.executable, *command, window.command, *window.arguments, *arguments), log

    def stop(self, window: Window, *arguments: str, turn: int | None = None) -> Stopped:
        """Start the command of a window and wait until it stops before the step that `turn` selects."""
        count = self.shop.steps.get(window, 1)
        number = spread(self.turn if turn is None else turn, count)
        running, log = self.stepped(window, number, *arguments)
        stopped = running.until(lambda: state_of(running.child.pid) == "T", 120.0)
        return Stopped(running, steps_of(log)[number - 1] if stopped else "", number, count)

    def arrive(self, name: str, rows: pl.DataFrame) -> Path:
        """Put rows into the inbox as documented: write a hidden file, then rename it."""
        folder = self.repo / INBOX
        folder.mkdir(parents=True, exist_ok=True)
        rows.write_csv(folder / f".{name}")
        return (folder / f".{name}").rename(folder / name)

    def delete_first_model(self) -> None:
        """Delete the model of the first champion's run; DVC's cache still contains it."""
        shutil.rmtree(self.repo / "runs" / record(self.repo, TAG.format(1))["run"] / "model")
        self.before = standing(self.repo)

    def known(self) -> list[str]:
        """Return the texts of the growing data set."""
        path = self.repo / "data/local/shop_live.parquet"
        return pl.read_parquet(path)["text"].to_list() if path.exists() else []


def prepare_shop(folder: Path, server: str) -> Shop:
    """Create the states, and count the steps at which a fault can be injected."""
    for name in CODE:
        shutil.copytree(ROOT / name, folder / "code" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("stepper.py"), folder / "code")
    broken = SOURCE.replace("name: shop", f"name: {BROKEN}").replace("local/shop.csv", "local/missing.csv")
    lay_out(folder / NEW, environment(folder / NEW), **{f"data/sources/{BROKEN}.yaml": broken})
    shop = Shop(folder)
    bench = ShopBench(folder / "making", shop, server, mounted=False)
    _fresh(bench, NEW)
    _succeed(bench.retrain())
    for number, override in enumerate(OVERRIDES, 1):
        _succeed(bench.pipeline(*override, "--name", f"earlier-{number}"))
    bench.keep(CROWNED)
    shop.models[1] = model_hash(bench.repo / "runs/champion/model")
    bench.arrive(BATCH, reviews(300, "slang", seed=1))
    steps = _steps(bench, Window("."))
    bench.keep(PROMOTED)
    shop.models[2] = model_hash(bench.repo / "runs/champion/model")
    shop.steps.update({window: window.count(steps) for window in (TAKING, PROMOTING)})
    for window in (ROLLING_BACK, RESTORING):
        _fresh(bench, PROMOTED)
        if window == RESTORING:
            bench.delete_first_model()
        shop.steps[window] = window.count(_steps(bench, window))
    return shop


def _fresh(bench: ShopBench, state: str) -> None:
    bench.restore(state)
    bench.begin(state)


def _steps(bench: ShopBench, window: Window) -> list[str]:
    """Run the command of a window and return all of its steps."""
    running, log = bench.stepped(window, 0)
    _succeed(running)
    return steps_of(log)


def _succeed(running: Running) -> None:
    ended = running.wait()
    if ended.code:
        raise RuntimeError(f"the shop cannot be prepared: exit code {ended.code}\n{ended.said}")


def steps_of(log: Path) -> list[str]:
    """Return the steps in a log."""
    return [line.partition(" ")[2] for line in log.read_text().splitlines()]


def move_worktrees(repo: Path, old: Path) -> None:
    """Update the absolute paths that git stores for the worktrees of a copied repository."""
    for note in [*(repo / ".git/worktrees").glob("*/gitdir"), *(repo / ".epigram/workspaces").glob("*/.git")]:
        note.write_text(note.read_text().replace(f"{old}/", f"{repo}/"))


def spread(turn: int, count: int) -> int:
    """Return the step for a turn: `count` turns cover each step once, and consecutive turns are far apart."""
    strides = (each for each in range(1, count + 1) if gcd(each, count) == 1)
    stride = min(strides, key=lambda each: abs(each - 0.618 * count))
    return turn * stride % count + 1
