"""Shop of the fault drill whose commands are short scripts and whose champions are small files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.drill.place import Running
from tests.drill.shop import CHALLENGED, CROWNED, PROMOTED, Shop, Window
from tests.drill.shop_bench import ShopBench
from tests.support.drill_samples import ENDED, Scripts

STOPS = 'echo "1 rename a b" >> "$LOG"; kill -STOP $$; '  # a command that stops before its first step


class ScriptedShop(ShopBench):
    """Shop bench with `scripts`: bash code for `stepped` (replaces the stepper), `retrain` and `pipeline`."""

    def __init__(self, folder: Path, scripts: Scripts) -> None:
        super().__init__(folder / "bench", shop(folder / "shop"), "", mounted=False)
        self.scripts = {name: [each] if isinstance(each, str) else list(each) for name, each in scripts.items()}
        self.asked: list[tuple[str, ...]] = []  # the arguments of each `retrain`
        self.restore("test")

    def retrain(self, *arguments: str) -> Running:
        self.asked.append(arguments)
        return self._next("retrain")

    def pipeline(self, *_: str) -> Running:
        return self._next("pipeline")

    def stepped(self, window: Window, at: int, *_: str) -> tuple[Running, Path]:
        log = self.folder / f"steps-{len(self.outputs)}.txt"
        log.touch()
        return self._next("stepped", LOG=str(log)), log

    @contextlib.contextmanager
    def full(self, left: int) -> Iterator[None]:
        yield

    def _next(self, name: str, **env: str) -> Running:
        scripts = self.scripts[name]
        text = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        running = self.start("bash", "-c", text, **env)
        if text == ENDED:
            running.child.wait()
        return running


def shop(folder: Path) -> Shop:
    """Return a shop with one champion in the states `crowned` and `challenged` and two in `promoted`."""
    shutil.copytree(_states().name, folder, symlinks=True)
    return Shop(folder, models={number: manifest_hash(number) for number in (1, 2)})


@cache
def _states() -> TemporaryDirectory[str]:
    """Return the folder with the three repositories, created once."""
    folder = TemporaryDirectory(prefix="drill-shop-")
    for state in (CROWNED, CHALLENGED, PROMOTED):
        repo = Path(folder.name) / state
        (repo / "runs").mkdir(parents=True)
        git(repo, "init", "--quiet")
        (repo / ".gitignore").write_text("/runs/\n/data/\n")
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "-m", "start")
        for number in (1, 2) if state == PROMOTED else (1,):
            promote(repo, number)
    return folder


def promote(repo: Path, number: int) -> None:
    """Make run `r1`, `r2` and so on the champion with the same number."""
    save_run(repo, number)
    enter(repo, number, number)


def enter(repo: Path, number: int, run: int) -> None:
    """Set branch, tag and link to the run as the champion with this number."""
    entry = {"number": number, "run": f"r{run}", "hashes": {"model": manifest_hash(run)}}
    (repo / "champion.json").write_text(json.dumps(entry))
    git(repo, "checkout", "--quiet", "-B", "making")
    git(repo, "add", "champion.json")
    git(repo, "commit", "--quiet", "-m", str(number))
    git(repo, "tag", "--force", f"champion@v{number}.0.0")
    git(repo, "branch", "--force", "champion")
    git(repo, "checkout", "--quiet", "-")
    git(repo, "branch", "--quiet", "-D", "making")
    point(repo, run)


def point(repo: Path, number: int) -> None:
    """Set the link runs/champion to a run."""
    (repo / "runs/champion").unlink(missing_ok=True)
    (repo / "runs/champion").symlink_to(f"r{number}")


def save_run(repo: Path, number: int) -> None:
    """Write the folder of a run with a complete model."""
    model = repo / "runs" / f"r{number}" / "model"
    model.mkdir(parents=True)
    (model / "weights").write_text(f"weights {number}")
    (model / "manifest.json").write_text(manifest(number))
    (model.parent / "summary.json").write_text(json.dumps({"name": f"r{number}"}))
    (model.parent / "report.html").touch()


def manifest(number: int) -> str:
    return json.dumps({"sha256": {"weights": sha256(f"weights {number}".encode()).hexdigest()}})


def manifest_hash(number: int) -> str:
    return sha256(manifest(number).encode()).hexdigest()


def git(repo: Path, *arguments: str) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@t")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", *names, *arguments], cwd=repo, env=env, check=True, capture_output=True)
