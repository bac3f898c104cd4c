"""Add a user's file as a source, or replace it: a copy in data/local and a description in data/sources."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from epigram.core.config_types import check_name, read_yaml, shown
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import atomic_file, sha256, write_text
from epigram.core.yaml_edit import edit
from epigram.data.packed import file_suffix
from epigram.data.sources.inspection import ORDER_NOTE, Inspection, inspect_any
from epigram.data.sources.source import GROWING_SUFFIX, SOURCES, SPLIT_KEYS, read_source
from epigram.data.tables import Options, column_names

LOCAL_FOLDER = Path("data/local")
HEAD = "# Written by `epigram add`; data/sources/local.yaml explains every line.\n"
OF_FILE = {"name", "task", "files", "read", "splits", "labels", "rows"}  # keys that the added file determines
# keys of `read` that the added file determines
OF_READ = {
    "reader",
    "separator",
    "sheet",
    "text",
    "label",
    "split",
    *SPLIT_KEYS,
    "accepted",
    "label_separator",
    "encoding",
    "quote",
    "spans",
}


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


def with_own_keys(
    values: dict[str, Any], description: Path, *, keep_language: bool, ordered: bool = False
) -> dict[str, Any]:
    """Return `values` with the keys of a `description` that the added file does not determine.

    Labels that are still there keep their order, which is the order of a model's outputs, unless `ordered`. If the kept
    keys leave out rows, the number of rows in the file says nothing about the number that is read, so `rows` is empty.
    """
    old: Any = read_yaml(description)
    told = {"keep", "hierarchy"} & values.keys()
    own = {key: value for key, value in old.items() if key not in OF_FILE | told}
    if not keep_language:
        own["language"] = values["language"]
    read = {key: value for key, value in old["read"].items() if key not in OF_READ}
    if visible := values["read"].get("names"):
        read["names"] = visible | (read.get("names") or {})
    names = {str(label): str(name) for label, name in (read.get("names") or {}).items()}
    known = [label for label in values["labels"] if label in names or not read.get("named_only")]
    found = list(dict.fromkeys(names.get(label, label) for label in known))
    kept = [] if ordered else [label for label in map(str, old.get("labels") or []) if label in found]
    labels = kept + [label for label in found if label not in kept]
    rows = {} if own.get("distinct") or own.get("sample") or read.get("named_only") else values["rows"]
    every = {**values, **own, "read": {**values["read"], **read}, "labels": labels, "rows": rows}
    return {**{key: every[key] for key in old if key in every}, **every}  # keep the order of the keys


@dataclass(frozen=True)
class AddedSource:
    """Description of a source, the number of rows of its file, and notes for its user on how it is read."""

    path: Path
    rows: int
    notes: list[str]


def add_source(
    file: Path,
    *,
    name: str,
    text: str | Sequence[str],
    label: str,
    split: str | None = None,
    group: str | None = None,
    time: str | None = None,
    slices: Sequence[str] = (),
    label_separator: str | None = None,
    ordered: Sequence[str] | None = None,
    hierarchy: str = "",
    language: Literal["zh", "en"] | None = None,
    replace: bool = False,
    options: Options | None = None,
    root: Path = Path(),
) -> AddedSource:
    """Describe `file`, a table or a folder with a folder per label, as the source `name`.

    `text`, `label`, `split`, `group`, `time` and `slices` are column names; several columns `text` are joined, and the
    scores are also reported for each value of `slices`, and for each level of labels with the separator `hierarchy`.
    If `split` is None, a column of split names is used; "" is no column. `ordered` are the labels in their order. If
    `language` is None, it is guessed. The encoding and the separator are detected, unless `options` has them, and also
    whether quotation marks are plain characters. The description records all of these, and `names` of labels with
    invisible characters. With `replace`, a source of this name that this function has written is replaced, and keeps
    the keys that the user has added. Raises ParameterError for an invalid or existing name, one that ends like a
    growing data set, or an unsuitable file type or label column, InputMissingError for a missing file, DataError
    for a file that cannot be read.
    """
    description = root / SOURCES / f"{name}.yaml"
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ParameterError(
            f"{shown(repr(name))} cannot be the data set's name; choose lower-case letters, digits, - and _ (--name)"
        )
    check_name("--name", name)
    if name.endswith(GROWING_SUFFIX):
        raise ParameterError(
            f"--name is {name!r}; choose a name that does not end with {GROWING_SUFFIX}, as those of epigram retrain do"
        )
    known = known_checksums(description, replace=replace)
    columns: dict[str, Any] = {"text": column_names(text), "label": label, "split": split, "group": group, "time": time}
    columns |= {"label_separator": label_separator, "keep": list(slices)}
    about = f"{shown(file.name)}, added with epigram add"
    with inspect_any(file, columns | (options or {})) as (table, inspected):
        inspected.check_trainable(file)
        found = inspected.in_order(ordered).with_levels(hierarchy)
        _write(table, description, found, about, language, known, root, ordered=ordered is not None)
    return AddedSource(description, found.rows, [*found.notes, *([ORDER_NOTE] if ordered is not None else [])])


def _write(
    table: Path,
    description: Path,
    found: Inspection,
    about: str,
    language: Literal["zh", "en"] | None,
    known: set[str],
    root: Path,
    *,
    ordered: bool,
) -> None:
    """Copy the table and write its description; `known` are the checksums that the copy may have before.

    `ordered`: the labels are in their order, also if a description that is replaced has another one.
    """
    import yaml

    name = description.stem
    copy, digest = LOCAL_FOLDER / f"{name}{file_suffix(table)}", sha256(table)
    if os.path.lexists(root / copy) and not ((root / copy).is_file() and sha256(root / copy) in {digest, *known}):
        raise ParameterError(f"{copy} already exists with other content; choose another --name or move that file")
    files = [{"path": copy.name, "local": copy.as_posix(), "sha256": digest}]
    values = found.description(name, about, files, language)
    content = HEAD + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=118)
    if description.exists():
        values = with_own_keys(values, description, keep_language=language is None, ordered=ordered)
        content = edit(description.read_bytes().decode(), values)
    with atomic_file(root / copy) as temporary:
        shutil.copyfile(table, temporary)
        if sha256(temporary) != digest:
            raise DataError(f"{table} changed while it was read; add it again when it is complete")
    write_text(description, content)
