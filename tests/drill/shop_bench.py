"""Place for the faults of retraining: a copy of a prepared shop, and commands that stop before a step."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import polars as pl

from tests.drill.evidence import is_stopped
from tests.drill.place import Ended, Place, Running
from tests.drill.shop import Shop, Window, move_worktrees, steps_of
from tests.drill.standing import TAG, Standing, record, standing

HOME = "home.txt"  # beside a prepared state: the path where it was made
INBOX = Path("data/local/incoming")
LIVE = Path("data/local/shop_live.parquet")


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
    """Place whose repository is a copy of a prepared shop's state."""

    def __init__(self, folder: Path, shop: Shop, server: str, *, mounted: bool) -> None:
        super().__init__(folder, server, mounted=mounted)
        self.shop, self.before = shop, Standing()

    def restore(self, mark: str) -> None:
        """Begin a trial; the fault selects the state."""
        self.clear(mark)

    def begin(self, state: str) -> None:
        """Copy a state of the shop into the place."""
        shutil.copytree(self.shop.folder / state, self.repo, symlinks=True)
        home = self.shop.folder / f"{state}-{HOME}"
        if home.exists():
            move_worktrees(self.repo, Path(home.read_text()))
        for name in ("tmp", "site"):
            (self.room / name).mkdir()
        self.before = standing(self.repo)

    def keep(self, state: str) -> None:
        """Store the repository as a state of the shop."""
        shutil.copytree(self.repo, self.shop.folder / state, symlinks=True)
        (self.shop.folder / f"{state}-{HOME}").write_text(str(self.repo))

    def settings(self) -> dict[str, str]:
        """Return the environment variables of a trial's commands that a user does not have."""
        return super().settings() | {"PYTHONPATH": self.shop.python_path, "PREFECT_API_URL": self.server}

    def retrain(self, *arguments: str) -> Running:
        """Start `python -m flows.retrain`."""
        return self.start(sys.executable, "-m", "flows.retrain", *arguments)

    def pipeline(self, *arguments: str) -> Running:
        """Start the command behind `make run`."""
        return self.start(sys.executable, "-m", "flows.pipeline", *arguments)

    def stepped(self, window: Window, at: int, *arguments: str) -> tuple[Running, Path]:
        """Start the command of a window, which stops before step `at`; return it and the log of its steps."""
        log = self.folder / f"steps-{len(self.outputs)}.txt"
        log.unlink(missing_ok=True)
        command = [str(self.shop.stepper), str(log), window.begin, str(at), window.module]
        return self.start(sys.executable, *command, *window.arguments, *arguments), log

    def stop(self, window: Window, *arguments: str, turn: int | None = None) -> Stopped:
        """Start the command of a window and wait until it stops before the step that `turn` selects."""
        count = self.shop.steps.get(window, 1)
        number = spread(self.turn if turn is None else turn, count)
        running, log = self.stepped(window, number, *arguments)
        step = steps_of(log.read_text().splitlines())[number - 1] if _wait_for_stop(running) else ""
        return Stopped(running, step, number, count)

    def arrive(self, name: str, rows: pl.DataFrame) -> Path:
        """Put rows into the inbox as documented: write a hidden file, then rename it."""
        folder = self.repo / INBOX
        folder.mkdir(parents=True, exist_ok=True)
        rows.write_csv(folder / f".{name}")
        return (folder / f".{name}").rename(folder / name)

    def delete_first_model(self) -> None:
        """Delete the model of the first champion's run; DVC's cache still contains it."""
        first = record(self.repo, TAG.format(1))["run"]
        shutil.rmtree(self.repo / "runs" / first / "model")
        self.before = standing(self.repo)

    def known(self) -> list[str]:
        """Return the texts of the growing data set."""
        path = self.repo / LIVE
        return pl.read_parquet(path)["text"].to_list() if path.exists() else []


def spread(turn: int, count: int) -> int:
    """Return the step for a turn: `count` turns cover each step once, and consecutive turns are far apart."""
    strides = (each for each in range(1, count + 1) if gcd(each, count) == 1)
    stride = min(strides, key=lambda each: abs(each - 0.618 * count))
    return turn * stride % count + 1


def _wait_for_stop(running: Running, seconds: float = 120.0) -> bool:
    """Wait until the command stops; return False if it ends before."""
    end = time.monotonic() + seconds
    while running.child.poll() is None and time.monotonic() < end:
        if is_stopped(running.child.pid):
            return True
        time.sleep(0.01)
    return False
