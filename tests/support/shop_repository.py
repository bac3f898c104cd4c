"""The shop's repository for tests of retraining."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl

from epigram.core.files import write_text
from epigram.runner.retraining import ingest
from epigram.runner.retraining.live_data import LiveData
from epigram.runner.workspace.settings import load
from tests.support.shop import PARAMS, SOURCE, reviews
from tests.support.toy import command_env


class Shop:
    """Repository with its own data set, to which new rows can be added."""

    def __init__(self, root: Path) -> None:
        self.root, self.incoming = root, root / "data" / "local" / "incoming"

    def arrive(self, name: str, rows: pl.DataFrame) -> None:
        self.incoming.mkdir(exist_ok=True)
        rows.write_csv(self.incoming / name)

    def retrain(self) -> Any:
        from flows.retrain import retrain

        return retrain(self.root, return_state=True).result()

    def drift(self, file: Path | None = None) -> Any:
        from flows.drift import drift_check

        return drift_check(self.root, file, return_state=True).result()

    def take(self) -> ingest.Ingestion:
        return ingest.ingest_rows(self.root, "shop", load(self.root / "params.yaml"))

    @property
    def live(self) -> LiveData:
        return LiveData(self.root, "shop_live", load(self.root / "params.yaml"))

    @property
    def rows(self) -> pl.DataFrame:
        return pl.read_parquet(self.root / "data" / "local" / "shop_live.parquet")

    def git(self, *arguments: str, text: str | None = None) -> str:
        return self.shell("git", *arguments, text=text)

    def shell(self, *command: str, text: str | None = None) -> str:
        done = subprocess.run(
            command, cwd=self.root, env=command_env(), check=True, capture_output=True, text=True, input=text
        )
        return done.stdout.strip()


def small_shop(root: Path, rows: int) -> Shop:
    """Return a repository with a data set of some rows, without flows and commits."""
    for name, text in {"params.yaml": PARAMS, "data/sources/shop.yaml": SOURCE}.items():
        write_text(root / name, text)
    for folder in (root / "data" / "local", root / ".dvc"):
        folder.mkdir()
    shop = Shop(root)
    shop.git("init", "--quiet")
    reviews(rows, "plain", seed=0).write_csv(root / "data" / "local" / "shop.csv")
    return shop


def copied(root: Path, to: Path) -> Shop:
    """Return a copy without workspaces, which store absolute paths."""
    shutil.copytree(root, to, symlinks=True, ignore=shutil.ignore_patterns("workspaces", "worktrees"))
    return Shop(to)
