"""Readers for tars of small files: texts in a folder per label, or JSON objects with separate lists of labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import polars as pl

from epigram.core.config_types import parse_json, shown
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.readers.decoding import decode, read_lines
from epigram.data.sources.access import is_safe_path
from epigram.data.sources.archives import iter_members, translate_archive_errors
from epigram.data.sources.source import SourceSection

COLUMNS = pl.Schema({name: pl.Int64() if name == "line" else pl.String() for name in ("file", "line", "text", "label")})


@dataclass(frozen=True, kw_only=True)
class Posts(SourceSection):
    """Options for a tar of plain text files …/SPLIT/LABEL/NAME."""

    encoding: str = "utf-8"


@dataclass(frozen=True, kw_only=True)
class JsonFiles(SourceSection):
    """Options for a tar of files …/NAME.json, whose key `text` has the text.

    `lists` has for each label the file that lists its NAME.json.
    """

    text: str = "text"
    lists: dict[str, str]


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


def read_posts(path: Path, options: Posts) -> pl.DataFrame:
    """Return file, line, text, label, split, in the order of the tar.

    Raises DataError for a wrong encoding or a file without a folder.
    """
    rows, splits = [], []
    for file, data in iter_contents(path):
        if len(file.parts) < 2:
            raise DataError(f"{path}: {file} is not in a folder; expected FOLDER/FILE, where FOLDER is the label")
        rows.append((str(file), 1, decode(data, options.encoding, f"{path}: {file}"), file.parts[-2]))
        splits.append(file.parts[-3] if len(file.parts) > 2 else None)
    return pl.DataFrame(rows, schema=COLUMNS, orient="row").with_columns(split=pl.Series(splits, dtype=pl.String))


def read_json_files(path: Path, options: JsonFiles) -> pl.DataFrame:
    """Return file, line, text, label, in the order of the tar.

    Raises DataError for a file that is not a JSON object with the text, or that is in no list or in two lists,
    ParameterError for a list outside the source's folder.
    """
    labels: dict[str, str] = {}
    for label, name in options.lists.items():
        if not is_safe_path(name):
            raise ParameterError(f"read.lists.{shown(label)} is {name!r}; expected the path of a file of the source")
        for listed in read_lines(path.parent / name)["text"]:
            if listed in labels:
                raise DataError(
                    f"{path.parent / name} lists {listed}, which the list of {labels[listed]!r} also contains"
                )
            labels[listed] = label
    rows = []
    for file, data in iter_contents(path):
        if file.name not in labels:
            raise DataError(f"{path}: {file} is not in any list of labels")
        rows.append((str(file), 1, _text(data, options.text, f"{path}: {file}"), labels[file.name]))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _text(data: bytes, key: str, where: str) -> str:
    try:
        value = parse_json(decode(data, "utf-8", where))
    except ValueError as error:
        raise DataError(f"{where} is not valid JSON ({error})") from None
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise DataError(f"{where} has no string under the key {key!r}")
    return str(value[key])
