"""Paths to the user's own files, which must be in data/local, a dependency of the stages in dvc.yaml."""

from __future__ import annotations

from pathlib import Path

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import is_inside

LOCAL_FOLDER = Path("data/local")  # relative to the repository root


def local_path(path: str, setting: str, root: Path = Path(), kind: str = "file or folder") -> Path:
    """Return the path of the file or folder that `setting` of params.yaml in `root` names.

    Raises ParameterError if `path` is outside data/local and InputMissingError if it does not exist.
    """
    value, place = f"params.yaml: {setting} is {path!r}", root / path
    if not is_inside(place, root / LOCAL_FOLDER):
        remedy = f"put it there and set {setting} to {LOCAL_FOLDER / place.name}"
        raise ParameterError(f"{value}; expected a {kind} in {LOCAL_FOLDER}: {remedy}")
    if not (place.is_file() if kind == "file" else place.exists()):
        raise InputMissingError(f"{value}, which does not exist; put it there or remove the setting")
    return place


def local_file(path: str, setting: str) -> Path:
    """Return the path of the file that `setting` of params.yaml names. Raises the errors of `local_path`."""
    return local_path(path, setting, kind="file")
