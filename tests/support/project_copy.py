"""Copy of this project with two small systems in its own git repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import yaml

from tests.support.toy import PARTS

ROOT = Path(__file__).parents[2]


def tree(folder: Path) -> Path:
    """Create a git repository with the project's code, two small systems and 1 epoch."""
    for part in [
        *PARTS,
        "data/sources",
        "data/pocket",
        "data/local",
        "data/pos_versions",
    ]:
        source, to = ROOT / part, folder / part
        to.parent.mkdir(parents=True, exist_ok=True)
        # The compiled modules are copied too; a process of another test may be writing one of them.
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("*.pyc.*")) if source.is_dir() else shutil.copy(
            source, to
        )
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params |= {"views": {"token": {"tokenizer": "token"}}, "train": {"epochs": 1}}
    params["systems"] = {"tfidf_svm": {"view": "token"}, "smsp_e": {"view": "token"}}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder
