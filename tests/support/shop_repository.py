"""The shop's repository for tests of retraining."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl

from epigram.runner.retraining import ingest
from epigram.runner.workspace.settings import load
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
    def rows(self) -> pl.DataFrame:
        return pl.read_parquet(self.root / "data" / "local" / "shop_live.parquet")

    def git(self, *arguments: str) -> str:
        return self.shell("git", *arguments)

    def shell(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.root, env=command_env(), check=True, capture_output=True, text=True)
        return done.stdout.strip()


def copied(root: Path, to: Path) -> Shop:
    """Return a copy without workspaces, which store absolute paths."""
    shutil.copytree(root, to, symlinks=True, ignore=shutil.ignore_patterns("workspaces", "worktrees"))
    return Shop(to)
