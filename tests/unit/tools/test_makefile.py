"""Tests of the Makefile's target clean, in a repository of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OUTPUTS = ("data/models/a/config.json", "data/encoded/local/ids.npy", "dvc.lock", ".epigram/state/a")
KEPT = (
    "data/local/own.csv",
    "data/local/more/own.csv",
    "data/sources/own.yaml",
    "data/pocket/a.csv",
    "data/pos_versions/words.tsv",
    "data/pos_versions/words.tsv.dvc",
    "runs/a/report",
)


@pytest.mark.skipif(shutil.which("make") is None, reason="requires make")
def test_clean_removes_outputs_and_keeps_what_git_and_the_user_have(tmp_path: Path) -> None:
    tracked = ["Makefile", ".gitignore", "data/pos_versions/.gitkeep"]
    for name in tracked:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    for name in (*OUTPUTS, *KEPT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    left = {name for name in (*tracked, *OUTPUTS, *KEPT) if (tmp_path / name).exists()}
    assert left == {*tracked, *KEPT}
