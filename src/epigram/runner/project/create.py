"""Creation of a project folder, with git and DVC initialised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import epigram
from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import atomic_folder
from epigram.runner.git import git
from epigram.runner.project import template
from epigram.runner.project.record import TemplateRecord

IDENTITY = ("-c", "user.name=epigram", "-c", "user.email=epigram@localhost")


def create(folder: Path) -> None:
    """Write a new project to `folder`, which is missing or empty, with a first commit.

    Raises ParameterError if the folder is not empty, InputMissingError if git is not installed.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ParameterError(f"{folder} is not empty; choose a new folder, or update a project with --update")
    git(Path(), "--version")
    if folder.is_dir():
        _write(folder)
        return
    with atomic_folder(folder) as new:
        _write(new)


def _write(folder: Path) -> None:
    files = template.contents()
    write_files(folder, files)
    TemplateRecord(epigram.__version__, hashes(files)).write(folder)
    git(folder, "-c", "init.defaultBranch=main", "init", "--quiet")
    git(folder, "add", "--all", "--force")
    message = f"Create a project for epigram {epigram.__version__}"
    git(folder, *_identity(folder), "commit", "--quiet", "--message", message)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their names below `folder`."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def _identity(folder: Path) -> tuple[str, ...]:
    """Return git options with an author for the first commit if the user has configured none."""
    try:
        known = all(git(folder, "config", "--get", f"user.{field}") for field in ("name", "email"))
    except InputMissingError:
        known = False
    return () if known else IDENTITY
