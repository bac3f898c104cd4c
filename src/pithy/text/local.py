"""The user's own files, which the pipeline watches where they stand in data/local."""

from __future__ import annotations

import os
from pathlib import Path

from pithy.errors import InputMissingError, ParameterError

HOME = Path("data/local")  # below the repository's root


def local_file(path: str, setting: str) -> Path:
    """The file `path` that a `setting` of params.yaml names.

    Raises ParameterError for a place that the pipeline does not watch, InputMissingError where there is no file.
    """
    where, file = f"params.yaml: {setting} was {path!r}", Path(path)
    plain = Path(os.path.normpath(file.absolute()))  # a link below data/local may lead anywhere
    if not plain.is_relative_to(HOME.absolute()):
        raise ParameterError(f"{where}: put the file into {HOME} and say {HOME / file.name}")
    if not file.is_file():
        raise InputMissingError(f"{where}: there is no such file; put it there, or take the setting out")
    return file
