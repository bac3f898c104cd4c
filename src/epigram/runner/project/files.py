"""Files of a project: their record in epigram.yaml, creation with git and DVC, and update to the installed version."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import epigram
from epigram.core.config_types import has_type, is_inner_path, read_yaml, shown
from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import atomic_file, atomic_folder, write_text
from epigram.runner.git import git, require_top_level
from epigram.runner.project import template
from epigram.runner.project.template import RECORD

HEAD = """\
# Written by `epigram init`. All stages depend on the version: they run again with another one.
# `epigram init --update` updates the version and every file that still has the SHA-256 listed here.
"""
INBOX = "data/local/incoming"  # retrain.incoming of a new params.yaml
IDENTITY = ("-c", "user.name=epigram", "-c", "user.email=epigram@localhost")


@dataclass(frozen=True)
class TemplateRecord:
    """Version of epigram, and the SHA-256 of each file as epigram wrote it."""

    version: str
    files: dict[str, str]

    def write(self, root: Path) -> None:
        """Write the record of the project `root`."""
        values = {"version": self.version, "files": self.files}
        write_text(root / RECORD, HEAD + yaml.safe_dump(values, sort_keys=False))


def read(root: Path) -> TemplateRecord | None:
    """Return the record of the project `root`; None for a folder without one, such as epigram's own repository.

    Raises ParameterError for an invalid record.
    """
    try:
        values = read_yaml(root / RECORD)
    except FileNotFoundError:
        return None
    kinds = {"version": str, "files": dict[str, str]}
    if not isinstance(values, dict) or not all(has_type(values.get(name), kind) for name, kind in kinds.items()):
        raise ParameterError(f"{root / RECORD}: expected a text `version` and a mapping `files`; restore it from git")
    for name in values["files"]:
        if not is_inner_path(name):
            raise ParameterError(f"{root / RECORD}: {shown(name)} in `files` is no path below the project; remove it")
    return TemplateRecord(values["version"], values["files"])


def check_version(root: Path) -> None:
    """Raise ParameterError if the project `root` is for another version of epigram than the installed one."""
    record = read(root)
    if record is not None and record.version != epigram.__version__:
        raise ParameterError(
            f"{root / RECORD}: the project is for epigram {record.version}, but epigram {epigram.__version__} is "
            f"installed; run `epigram init --update`, or install epigram {record.version}"
        )


def require_repository(root: Path) -> None:
    """Raise an error if `root` is not the top folder of a repository of git and DVC, which would use an outer one."""
    require_top_level(root)
    if not (root / ".dvc").is_dir():
        raise ParameterError(f"{root.absolute()} has no folder .dvc; run dvc init")


def check_project(root: Path) -> None:
    """Raise an error if `root` is not the top folder of a repository, or is for another version of epigram."""
    require_repository(root)
    check_version(root)


def create(folder: Path, fill: Callable[[Path], None] = lambda root: None) -> None:
    """Write a new project to `folder`, which is missing or empty, with a first commit, and let `fill` change it.

    Raises ParameterError if the folder is not empty, InputMissingError if git is not installed.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ParameterError(f"{folder} is not empty; choose a new folder, or update a project with --update")
    git(Path(), "--version")
    with nullcontext(folder) if folder.is_dir() else atomic_folder(folder) as new:
        _write(new)
        fill(new)


def _write(folder: Path) -> None:
    files = template.contents()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / INBOX).mkdir()
    TemplateRecord(epigram.__version__, hashes(files)).write(folder)
    git(folder, "-c", "init.defaultBranch=main", "init", "--quiet")
    commit(folder, f"Create a project for epigram {epigram.__version__}", "--force")


def commit(folder: Path, message: str, *options: str) -> None:
    """Commit all changes in `folder`, as the user or, if git has no name of the user, as epigram."""
    git(folder, "add", "--all", *options)
    try:
        known = all(git(folder, "config", "--get", f"user.{key}") for key in ("name", "email"))
    except InputMissingError:
        known = False
    git(folder, *(() if known else IDENTITY), "commit", "--quiet", "--message", message)


def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


@dataclass
class Update:
    """Changes of an update: the files written and deleted, and a diff for each file that the user has changed."""

    version: str  # version before the update
    written: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    diffs: dict[str, str] = field(default_factory=dict)


def update(root: Path) -> Update:
    """Replace the files of the project `root` that the user has not changed, and record the installed version.

    A file that the user has changed is kept; if the new version of epigram also changes it, the result contains the
    diff. A file that the user has deleted is not restored. Raises InputMissingError if `root` is not a project.
    """
    record = read(root)
    if record is None:
        raise InputMissingError(f"{root / RECORD} does not exist; run --update in the folder of a project")
    result, files = Update(record.version), template.contents()
    for name, content in files.items():
        _update_file(root, name, content, record.files.get(name), result)
    for name in record.files.keys() - files.keys():
        if _hash(root / name) == record.files[name]:
            (root / name).unlink()
            result.deleted.append(name)
    TemplateRecord(epigram.__version__, hashes(files)).write(root)
    return result


def _update_file(root: Path, name: str, content: bytes, recorded: str | None, result: Update) -> None:
    path, new = root / name, hashlib.sha256(content).hexdigest()
    current = _hash(path)
    if new in (current, recorded) or (current is None and recorded is not None):
        return
    if current == recorded:  # unchanged by the user, or a new file
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)
        result.written.append(name)
    else:
        old, new_lines = (
            each.decode(errors="replace").splitlines(keepends=True) for each in (path.read_bytes(), content)
        )
        names = f"{name} (yours)", f"{name} (epigram {epigram.__version__})"
        result.diffs[name] = "".join(difflib.unified_diff(old, new_lines, *names))


def _hash(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
