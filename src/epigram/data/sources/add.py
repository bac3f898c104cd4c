"""Add a user's file as a source, or replace it: a copy in data/local and a description in data/sources."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import polars as pl

from epigram.core.config_types import check_name, parse_integer, read_yaml, shown
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import atomic_file, sha256, write_text
from epigram.data import tables
from epigram.data.sources.source import CONTROL_CHARACTER, GROWING_SUFFIX, SOURCES, read_source
from epigram.data.splitting import SPLIT_BY_NAME

HEAD = "# Written by `epigram add`; data/sources/local.yaml explains every line.\n"
OF_FILE = {"name", "task", "files", "read", "splits", "labels", "rows"}  # keys that the added file determines
# keys of `read` that the added file determines
OF_READ = {"reader", "separator", "text", "label", "split", "label_separator", "encoding", "quote"}


def known_checksums(description: Path, *, replace: bool) -> set[str]:
    """Return the checksums of the files of a source that may be replaced; none if there is no such source.

    A copy with another checksum has been edited and may be the only one. Raises ParameterError for a source that may
    not be replaced.
    """
    if not description.exists():
        return set()
    if not replace:
        raise ParameterError(f"{description} already exists; choose another --name, or use --replace for new content")
    if not description.read_text(encoding="utf-8").startswith(HEAD):
        raise ParameterError(f"{description} was not written by `epigram add`; choose another --name")
    return {file.sha256 for file in read_source(description).files if file.sha256}


def with_own_keys(values: dict[str, Any], description: Path, *, keep_language: bool) -> dict[str, Any]:
    """Return `values` with the keys of a `description` that the added file does not determine.

    Labels that are still there keep their order, which is the order of a model's outputs. If the kept keys leave out
    rows, the number of rows in the file says nothing about the number that is read, so `rows` is empty.
    """
    old: Any = read_yaml(description)
    own = {key: value for key, value in old.items() if key not in OF_FILE}
    if not keep_language:
        own["language"] = values["language"]
    read = {key: value for key, value in old["read"].items() if key not in OF_READ}
    names = {str(label): str(name) for label, name in (read.get("names") or {}).items()}
    known = [label for label in values["labels"] if label in names or not read.get("named_only")]
    found = list(dict.fromkeys(names.get(label, label) for label in known))
    kept = [label for label in map(str, old.get("labels") or []) if label in found]
    labels = kept + [label for label in found if label not in kept]
    rows = {} if own.get("distinct") or read.get("named_only") else values["rows"]
    return {**values, **own, "read": {**values["read"], **read}, "labels": labels, "rows": rows}


LOCAL_FOLDER = Path("data/local")
HAN = r"[\u4e00-\u9fff]"


def add_source(
    file: Path,
    *,
    name: str,
    text: str,
    label: str,
    split: str | None = None,
    language: Literal["zh", "en"] | None = None,
    replace: bool = False,
    root: Path = Path(),
) -> Path:
    """Describe `file` (csv, tsv, jsonl or parquet) as the source `name` and return the path of the description.

    `text`, `label` and `split` are column names. If `language` is None, it is guessed. Encodings other than UTF-8 are
    detected, and also whether quotation marks are plain characters. The description records all of these. With
    `replace`, a source of this name that this function has written is replaced, and keeps the keys that the user has
    added. Raises ParameterError for an invalid or existing name, one that ends like a growing data set, or an
    unsuitable file type or label column, InputMissingError for a missing file, DataError for a file that cannot be
    read.
    """
    description = root / SOURCES / f"{name}.yaml"
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ParameterError(f"--name is {name!r}; expected lower-case letters, digits, - and _")
    check_name("--name", name)
    if name.endswith(GROWING_SUFFIX):
        raise ParameterError(
            f"--name is {name!r}; choose a name that does not end with {GROWING_SUFFIX}, as those of epigram retrain do"
        )
    known = known_checksums(description, replace=replace)
    options = {"text": text, "label": label, "split": split}
    read = tables.detect(file, {key: value for key, value in options.items() if value is not None})
    frame = pl.concat(tables.reader_of(read).read(file))
    import yaml

    copy, digest = LOCAL_FOLDER / f"{name}{file.suffix.lower()}", sha256(file)
    if os.path.lexists(root / copy) and not ((root / copy).is_file() and sha256(root / copy) in {digest, *known}):
        raise ParameterError(f"{copy} already exists with other content; choose another --name or move that file")
    values = {
        "name": name,
        "about": f"{file.name}, added with epigram add",
        "language": language or _guess_language(frame),
        "task": "multi" if frame.schema["label"] == pl.List(pl.String) else "single",
        "licence": "your own data",
        "files": [{"path": copy.name, "local": copy.as_posix(), "sha256": digest}],
        "read": read,
        "splits": {} if split is None else _find_splits(frame, file),
        "labels": _find_labels(frame, label, file),
        "rows": {"all": frame.height},
    }
    if description.exists():
        values = with_own_keys(values, description, keep_language=language is None)
    with atomic_file(root / copy) as temporary:
        shutil.copyfile(file, temporary)
        if sha256(temporary) != digest:
            raise DataError(f"{file} changed while it was read; add it again when it is complete")
    write_text(description, HEAD + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=118))
    return description


def _guess_language(frame: pl.DataFrame) -> str:
    """Return zh if more than a tenth of the characters of the first 1,000 texts are Han, else en."""
    text = "".join(frame["text"].head(1000))
    return "zh" if len(re.findall(HAN, text)) * 10 > len(text) else "en"


def _find_labels(frame: pl.DataFrame, column: str, file: Path) -> list[str]:
    """Return the labels, numbers sorted by value. Raise ParameterError if the column is unlikely to hold labels."""
    each = frame["label"].explode() if frame.schema["label"] != pl.String else frame["label"]
    found = [label for label in each.drop_nulls().str.strip_chars().unique() if label]
    if len(found) < 2:
        raise DataError(
            f"{file} has {frame.height} rows with the labels {found} in {column!r}; expected at least two labels"
        )
    if invalid := sorted(label for label in found if CONTROL_CHARACTER.search(label)):
        raise DataError(
            f"{file} has the label {shown(repr(invalid[0]))} with a control character; remove the character"
        )
    if len(found) > 20 and len(found) * 2 > frame.height:
        raise ParameterError(
            f"--label is {column!r}, but this column of {file} has {len(found)} different values in {frame.height} "
            "rows; choose the column with the labels"
        )
    return sorted(found, key=lambda label: ((number := parse_integer(label)) is None, number or 0, label))


def _find_splits(frame: pl.DataFrame, file: Path) -> dict[str, list[str]]:
    found: Iterable[str] = frame["split"].fill_null("").str.strip_chars().unique().sort()
    splits: dict[str, list[str]] = {}
    for value in found:
        if value.lower() not in SPLIT_BY_NAME:
            raise DataError(
                f"{file} has the unknown split {value!r}; expected {', '.join(SPLIT_BY_NAME)}; "
                "omit --split to create new splits"
            )
        splits.setdefault(SPLIT_BY_NAME[value.lower()], []).append(value)
    return splits
