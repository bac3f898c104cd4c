"""Add a user's file as a source: a copy in data/local and a description in data/sources."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import polars as pl

from epigram.core.config_types import check_name, number_of, shown
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import atomic_file, sha256, write_text
from epigram.data.readers import READERS
from epigram.data.readers.csv_quoting import read_forgiving
from epigram.data.readers.decoding import guess_encoding
from epigram.data.readers.splitting import USUAL
from epigram.data.sources.source import CONTROL, SOURCES

LOCAL = Path("data/local")
KINDS: dict[str, dict[str, Any]] = {
    ".csv": {"reader": "csv"},
    ".tsv": {"reader": "csv", "separator": "\t"},
    ".jsonl": {"reader": "jsonl"},
    ".parquet": {"reader": "parquet"},
}
HAN = r"[\u4e00-\u9fff]"


def add(
    file: Path,
    *,
    name: str,
    text: str,
    label: str,
    split: str | None = None,
    label_separator: str | None = None,
    language: Literal["zh", "en"] | None = None,
    root: Path = Path(),
) -> Path:
    """Describe `file` (csv, tsv, jsonl or parquet) as the source `name` and return the path of the description.

    `text`, `label` and `split` are column names. `label_separator` separates several labels in one string. If
    `language` is None, it is guessed. Encodings other than UTF-8 are detected, and also whether quotation marks are
    plain characters. The description records all of these. Raises ParameterError for an invalid or existing name or
    an unsuitable file type or label column, InputMissingError for a missing file, DataError for a file that cannot be
    read.
    """
    description = root / SOURCES / f"{name}.yaml"
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ParameterError(f"name was {name!r}: lower-case letters, digits, - and _ are allowed (--name)")
    check_name("name", name)
    if description.exists():
        raise ParameterError(f"name was {name!r}: there is a source of that name, {description}")
    if not file.is_file():
        raise InputMissingError(f"{file} is {'a folder: name a file' if file.is_dir() else 'missing'}")
    options = {"text": text, "label": label, "split": split, "label_separator": label_separator}
    read, frame = _read(file, {key: value for key, value in options.items() if value is not None})
    copy, digest = LOCAL / f"{name}{file.suffix.lower()}", sha256(file)
    if os.path.lexists(root / copy) and not ((root / copy).is_file() and sha256(root / copy) == digest):
        raise ParameterError(f"{copy} is there and holds something else: choose another --name, or move that file away")
    values = {
        "name": name,
        "about": f"{file.name}, added by its owner",
        "language": language or _language(frame),
        "task": "multi" if frame.schema["label"] == pl.List(pl.String) else "single",
        "licence": "its owner's",
        "files": [{"path": copy.name, "local": copy.as_posix(), "sha256": digest}],
        "read": read,
        "splits": {} if split is None else _splits(frame, file),
        "labels": _labels(frame, label, file),
        "rows": {"all": frame.height},
    }
    with atomic_file(root / copy) as temporary:
        shutil.copyfile(file, temporary)
        if sha256(temporary) != digest:
            raise DataError(f"{file} changed while it was read: add it again when it is whole")
    write_text(description, _yaml(values))
    return description


def _read(file: Path, columns: dict[str, Any]) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return the `read` section of the description, and the rows."""
    if file.suffix.lower() not in KINDS:
        raise ParameterError(f"{file} is none of {', '.join(KINDS)}")
    values = KINDS[file.suffix.lower()] | columns
    if values["reader"] != "parquet" and (encoding := guess_encoding(file)) not in {"", "utf-8"}:
        values["encoding"] = encoding
    return read_forgiving(lambda options: _rows(file, options), values)


def _rows(file: Path, values: dict[str, Any]) -> pl.DataFrame:
    kind, read = READERS[values["reader"]]
    return pl.concat(read(file, kind(**{key: value for key, value in values.items() if key != "reader"})))


def _language(frame: pl.DataFrame) -> str:
    """Return zh if more than a tenth of the characters of the first 1,000 texts are Han, else en."""
    text = "".join(frame["text"].head(1000))
    return "zh" if len(re.findall(HAN, text)) * 10 > len(text) else "en"


def _labels(frame: pl.DataFrame, column: str, file: Path) -> list[str]:
    """Return the labels, numbers sorted by value. Raise ParameterError if the column is unlikely to hold labels."""
    each = frame["label"].explode() if frame.schema["label"] != pl.String else frame["label"]
    found = [label for label in each.drop_nulls().str.strip_chars().unique() if label]
    if len(found) < 2:
        raise DataError(f"{file} has {frame.height} rows and the labels {found} in {column!r}: two labels are needed")
    if unfit := sorted(label for label in found if CONTROL.search(label)):
        raise DataError(f"{file} has the label {shown(repr(unfit[0]))}: control characters are not allowed in a label")
    if len(found) > 20 and len(found) * 2 > frame.height:
        raise ParameterError(f"label was {column!r}: {file} has {len(found)} different values in {frame.height} rows")
    return sorted(found, key=lambda label: ((number := number_of(label)) is None, number or 0, label))


def _splits(frame: pl.DataFrame, file: Path) -> dict[str, list[str]]:
    found: Iterable[str] = frame["split"].fill_null("").str.strip_chars().unique().sort()
    splits: dict[str, list[str]] = {}
    for value in found:
        if value.lower() not in USUAL:
            raise DataError(
                f"{file} has the split {value!r}: {', '.join(USUAL)} are known; leave the column out to cut anew"
            )
        splits.setdefault(USUAL[value.lower()], []).append(value)
    return splits


def _yaml(values: dict[str, Any]) -> str:
    import yaml

    head = "# Written by `epigram add`; data/sources/local.yaml explains every line.\n"
    return head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=118)
