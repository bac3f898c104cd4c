"""Update of a project to the template of this version, by the record of its files."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import epigram
from epigram.core.errors import InputMissingError
from epigram.core.files import atomic_file
from epigram.runner.project import template
from epigram.runner.project.create import hashes
from epigram.runner.project.record import TemplateRecord, read
from epigram.runner.project.template import RECORD


@dataclass
class Update:
    """Changes of an update: the files written and deleted, and a diff for each file that the user has changed."""

    version: str  # before the update
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
    new_hashes = hashes(files)
    for name, content in files.items():
        _update_file(root, name, content, record.files.get(name), result)
    for name in record.files.keys() - files.keys():
        if _hash(root / name) == record.files[name]:
            (root / name).unlink()
            result.deleted.append(name)
    TemplateRecord(epigram.__version__, new_hashes).write(root)
    return result


def _update_file(root: Path, name: str, content: bytes, recorded: str | None, result: Update) -> None:
    path, new = root / name, hashlib.sha256(content).hexdigest()
    current = _hash(path)
    if new in (current, recorded) or (current is None and recorded is not None):
        return
    if current == recorded:  # unchanged by the user, or a new file
        path.parent.mkdir(parents=True, exist_ok=True)
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
