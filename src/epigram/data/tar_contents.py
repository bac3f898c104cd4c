"""Contents of the files in a tar, and the columns of readers that make a row of each file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import polars as pl

from epigram.core.errors import InputMissingError
from epigram.data.sources.archives import iter_members, translate_archive_errors

COLUMNS = pl.Schema({name: pl.Int64() if name == "line" else pl.String() for name in ("file", "line", "text", "label")})


def iter_contents(path: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the path and content of every file in the tar.

    Raises DataError for a corrupt tar, InputMissingError for a missing one.
    """
    if not path.is_file():
        raise InputMissingError(f"{path} is missing; run the download stage (dvc repro)")
    for member in iter_members(path):
        with translate_archive_errors(path):
            content = member.stream.read()
        yield member.path, content
