"""Files of a new project. They are the repository's own; the build copies them into the package (see setup.py).

This module imports only the standard library, because the build runs it as a file.
"""

from __future__ import annotations

import re
from pathlib import Path

PATTERNS = (
    ".dvc/.gitignore",
    ".dvc/config",
    ".dvc/plots/*.json",
    ".dvcignore",
    ".gitignore",
    "data/local/.gitkeep",
    "data/pocket/*.jsonl",
    "data/pos_versions/.gitkeep",
    "data/sources/*.yaml",
    "dvc.yaml",
    "flows/*.py",
    "params.yaml",
    "prefect.toml",
    "prefect.yaml",
    "tasks/*.py",
)
PACKAGED = Path(__file__).parents[2] / "template"  # folder in an installed wheel
GUIDE = Path(__file__).with_name("README.md")  # what is where in a project
RECORD = "epigram.yaml"  # has the version of epigram for which a project was written

CODE = re.compile(r"^ +src/.*\n", re.MULTILINE)  # a row of a stage's dependencies on code of the repository
ROW = re.compile(r"^( +deps: \[)\n +(.*),\n +\]", re.MULTILINE)  # dependencies of a single row
PARAMS = re.compile(r"^( +params: \[.*)\]$", re.MULTILINE)


def files_of(root: Path) -> dict[str, Path]:
    """Return the template's files in `root`, by their names in a project.

    Raises FileNotFoundError if one of the PATTERNS has no file: a project without it would be refused by DVC.
    """
    found = {pattern: [path for path in sorted(root.glob(pattern)) if path.is_file()] for pattern in PATTERNS}
    if missing := [pattern for pattern, files in found.items() if not files]:
        raise FileNotFoundError(f"{root} has no {', '.join(missing)}")
    return {path.relative_to(root).as_posix(): path for files in found.values() for path in files}


def contents() -> dict[str, bytes]:
    """Return the files of a new project, from the wheel or from the repository of an editable installation."""
    root = PACKAGED if PACKAGED.is_dir() else PACKAGED.parents[2]
    new = {name: path.read_bytes() for name, path in files_of(root).items()}
    new[GUIDE.name] = GUIDE.read_bytes()
    new["dvc.yaml"] = depend_on_version(new["dvc.yaml"].decode()).encode()
    return new


def depend_on_version(text: str) -> str:
    """Return dvc.yaml with the installed version as a parameter of every stage, instead of dependencies on code."""
    text = ROW.sub(r"\1\2]", CODE.sub("", text)).replace("src/epigram/", "epigram.")
    return PARAMS.sub(rf"\1, {{{RECORD}: [version]}}]", text)
