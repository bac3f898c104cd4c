"""The user's own files, which the pipeline watches where they stand in data/local."""

from __future__ import annotations

from pathlib import Path

from pithy.errors import InputMissingError, ParameterError
from pithy.files import stands_in

HOME = Path("data/local")  # below the repository's root


def local_file(path: str, setting: str) -> Path:
    """The file `path` that a `setting` of params.yaml names.

    Raises ParameterError for a place that the pipeline does not watch, InputMissingError where there is no file.
    """
    where, file = f"params.yaml: {setting} was {path!r}", Path(path)
    if not stands_in(file, HOME):
        raise ParameterError(f"{where}: put the file into {HOME} and say {HOME / file.name}")
    if not file.is_file():
        raise InputMissingError(f"{where}: there is no such file; put it there, or take the setting out")
    return file
