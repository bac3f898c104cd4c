"""The labels that a machine chooses from: their names, and descriptions of what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.text.lines import read_texts

SEPARATOR = re.compile(r"\t|:\s|：")
Labels = dict[str, str]  # name → description, empty without one
Answer = tuple[str | None, float]  # label, None for no label, and its confidence from 0 to 1
NO_ANSWER: Answer = (None, 0.0)


def read_labels(path: Path) -> Labels:
    """Read a label per line, which may have a description: `label: description`, or with a tab between the two.

    Raises InputMissingError if the file is missing, DataError for a repeated or empty name and for fewer than two.
    """
    if not path.is_file():
        raise InputMissingError(f"{path} is missing; expected a file with one label per line")
    pairs = list[tuple[str, str]]()
    for number, line in enumerate(read_texts(path), 1):
        name, *about = (part.strip() for part in SEPARATOR.split(line.strip(), maxsplit=1))
        if about and not name:
            raise DataError(f"{path}:{number} has a description and no label; expected label: description")
        if name:
            pairs.append((name, "".join(about)))
    try:
        return check_labels(pairs)
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None


def check_labels(pairs: Iterable[tuple[str, str]]) -> Labels:
    """Return names and descriptions as a mapping. Raises ParameterError for a repeated name and for fewer than two."""
    labels = Labels()
    for name, description in pairs:
        if name in labels:
            raise ParameterError(f"the label {shown(repr(name))} is there twice; remove one")
        labels[name] = description
    if len(labels) < 2:
        raise ParameterError(f"found {len(labels)} labels; expected at least two")
    return labels


def as_labels(labels: Iterable[str] | Mapping[str, str]) -> Labels:
    """Return names, or names with descriptions, as `check_labels` does. Raises ParameterError for a single string."""
    if isinstance(labels, str):
        raise ParameterError(f"labels is the string {shown(repr(labels))}; expected a list, or names with descriptions")
    return check_labels(labels.items() if isinstance(labels, Mapping) else ((name, "") for name in labels))
