"""The pipeline with nothing to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.timing import ROOT, Plan, Reach, Row, process
from tasks.overrides import write
from tasks.request import Request

SYSTEM = "tfidf_svm"


def copy(folder: Path) -> None:
    """The repository's files as they stand, in a git repository of their own."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, check=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


def rows(plan: Plan) -> list[Row]:
    """`dvc repro` on a finished pipeline of one system."""
    folder = plan.scratch / "clone"
    copy(folder)
    write(folder / "params.yaml", Request(root=folder, systems=(SYSTEM,)))
    repro = ["-m", "dvc", "repro", "--quiet"]
    process(repro, folder, code=folder)
    [ours] = plan.alternate(lambda: process(repro, folder, code=folder))
    return [Row(f"dvc repro with nothing to do, {SYSTEM}", "s", ours["s"], reach=Reach("≤", 1.5))]
