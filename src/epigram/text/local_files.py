"""Paths to the user's own files, which must be in data/local, a dependency of the stages in dvc.yaml."""

from __future__ import annotations

from pathlib import Path

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import is_inside

HOME = Path("data/local")  # relative to the repository root


def local_file(path: str, setting: str) -> Path:
    """Return the path of the file that `setting` of params.yaml names.

    Raises ParameterError if `path` is outside data/local and InputMissingError if the file does not exist.
    """
    where, file = f"params.yaml: {setting} was {path!r}", Path(path)
    if not is_inside(file, HOME):
        raise ParameterError(f"{where}: put the file into {HOME} and say {HOME / file.name}")
    if not file.is_file():
        raise InputMissingError(f"{where}: there is no such file; put it there, or take the setting out")
    return file
