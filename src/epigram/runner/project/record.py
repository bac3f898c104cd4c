"""Record of a project: the version of epigram that it is for, and the hashes of the files that epigram wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

import epigram
from epigram.core.config_types import has_type, read_yaml, shown
from epigram.core.errors import ParameterError
from epigram.core.files import write_text
from epigram.runner.project.template import RECORD

HEAD = """\
# Written by `epigram init`. All stages depend on the version: they run again with another one.
# `epigram init --update` updates the version and every file that still has the SHA-256 listed here.
"""


@dataclass(frozen=True)
class TemplateRecord:
    """Version of epigram, and the SHA-256 of each file as epigram wrote it."""

    version: str
    files: dict[str, str]

    def write(self, root: Path) -> None:
        """Write the record of the project `root`."""
        write_text(
            root / RECORD, HEAD + yaml.safe_dump({"version": self.version, "files": self.files}, sort_keys=False)
        )


def read(root: Path) -> TemplateRecord | None:
    """Return the record of the project `root`; None for a folder without one, such as epigram's own repository.

    Raises ParameterError for an invalid record.
    """
    try:
        values = read_yaml(root / RECORD)
    except FileNotFoundError:
        return None
    if (
        not isinstance(values, dict)
        or not has_type(values.get("version"), str)
        or not has_type(values.get("files"), dict[str, str])
    ):
        raise ParameterError(f"{root / RECORD}: expected a text `version` and a mapping `files`; restore it from git")
    for name in values["files"]:
        if not _is_inside(name):
            raise ParameterError(f"{root / RECORD}: {shown(name)} in `files` is no path below the project; remove it")
    return TemplateRecord(values["version"], values["files"])


def _is_inside(name: str) -> bool:
    """Return whether `name` is a relative path that does not leave its folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path != PurePosixPath()


def check_version(root: Path) -> None:
    """Raise ParameterError if the project `root` is for another version of epigram than the installed one."""
    record = read(root)
    if record is not None and record.version != epigram.__version__:
        raise ParameterError(
            f"{root / RECORD}: the project is for epigram {record.version}, but epigram {epigram.__version__} is "
            f"installed; run `epigram init --update`, or install epigram {record.version}"
        )
