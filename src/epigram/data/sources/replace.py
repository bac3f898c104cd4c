"""Replacement of a source that was added before: what may be replaced, and what the user has added stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epigram.core.config_types import read_yaml
from epigram.core.errors import ParameterError
from epigram.data.sources.source import read_source

HEAD = "# Written by `epigram add`; data/sources/local.yaml explains every line.\n"
OF_FILE = {"name", "task", "files", "read", "splits", "labels", "rows"}  # keys that the added file determines
OF_READ = {
    "reader",
    "separator",
    "text",
    "label",
    "split",
    "label_separator",
    "encoding",
    "quote",
}  # the same in `read`


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

    Labels that are still there keep their order, which is that of a model's outputs. If the kept keys leave out rows,
    the number of rows in the file says nothing about those that are read, so `rows` is empty.
    """
    old: Any = read_yaml(description)
    own = {key: value for key, value in old.items() if key not in OF_FILE}
    if not keep_language:
        own["language"] = values["language"]
    read = {key: value for key, value in old["read"].items() if key not in OF_READ}
    found = _name_labels(values["labels"], read)
    kept = [label for label in map(str, old.get("labels") or []) if label in found]
    labels = kept + [label for label in found if label not in kept]
    rows = {} if own.get("distinct") or read.get("named_only") else values["rows"]
    return {**values, **own, "read": {**values["read"], **read}, "labels": labels, "rows": rows}


def _name_labels(found: list[str], read: dict[str, Any]) -> list[str]:
    """Return the labels that a reader with the options `read` makes of those found in the file."""
    names = {str(label): str(name) for label, name in (read.get("names") or {}).items()}
    known = [label for label in found if label in names or not read.get("named_only")]
    return list(dict.fromkeys(names.get(label, label) for label in known))
