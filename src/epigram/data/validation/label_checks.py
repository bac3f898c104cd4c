"""Notes on labels that are probably not what the user means: several in one, several spellings, or missing values."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping

from epigram.core.limits import list_names
from epigram.data.label_values import LIST_LIKE, LISTS

# Soft hyphens, zero-width spaces, direction marks and byte order marks; joiners have a meaning inside a label.
MEANINGLESS = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]|^[\u200c\u200d]+|[\u200c\u200d]+$")
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]")
SEPARATORS = ("|", ";", ",", "；", "，", "、")
RARE_SEPARATORS = (" ", "/", "+", "&", "#")  # also parts of ordinary labels
MISSING = re.compile(r"nan|null|none|nil|n/?a|<na>|#n/a|#null!|\\n|\.|缺失|未标注", re.IGNORECASE)
SURROUNDING = " \t\"'“”‘’.,:;!?()[]<>。，：；！？（）【】《》「」"
MAX_NOTES = 5  # groups of spellings that are listed one by one

SPELLINGS: dict[str, Callable[[str], str]] = {
    "invisible characters": lambda label: INVISIBLE.sub("", label),
    "Unicode normalization": lambda label: unicodedata.normalize("NFC", label),
    "HTML escapes": html.unescape,
    "number format": lambda label: re.sub(r"(?<=\d)\.0+$", "", label),
    "width": lambda label: unicodedata.normalize("NFKC", label),
    "spaces": lambda label: " ".join(label.split()),
    "case": str.casefold,
    "surrounding punctuation": lambda label: label.strip(SURROUNDING) or label,
}

Rows = Mapping[str, int]  # number of rows of each label


def visible_label(label: str) -> str:
    """Return the label without invisible characters, composed: spellings that only an export can have made differ."""
    return unicodedata.normalize("NFC", MEANINGLESS.sub("", label)).strip(" ")


def rows_by_label(lists: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """Return the number of rows of each label; `lists` counts the rows of each list of labels."""
    rows: dict[str, int] = defaultdict(int)
    for labels, number in lists.items():
        for label in dict.fromkeys(labels):
            rows[label] += number
    return dict(rows)


def label_notes(rows: Rows) -> list[str]:
    """Return notes on the labels, with the setting of data/sources that resolves each."""
    return [*_joined_labels(rows), *_spellings(rows), *_missing_values(rows)]


def list_notes(lists: Mapping[tuple[str, ...], int]) -> list[str]:
    """Return a note if no row has several labels; `lists` counts the rows of each list of labels."""
    if any(len(labels) > 1 for labels in lists):
        return []
    if not (empty := lists.get((), 0)):
        return ["no row has several labels; the data set is read with a single label per text"]
    return [
        f"rows with an empty list of labels: {empty:,}; no row has several labels. They are read as texts that have "
        "none of the labels; if they are not labelled yet, remove them and add the file again with --replace"
    ]


def _joined_labels(rows: Rows) -> list[str]:
    """Return notes on labels that look like lists or contain a separator of labels that other rows have too."""
    found = {LISTS: [label for label in rows if LIST_LIKE.fullmatch(label)]}
    for separator in SEPARATORS:
        joined = {label: _parts(label, separator) for label in rows if separator in label.strip(separator)}
        number: dict[str, int] = defaultdict(int)
        for part in [*(part for parts in joined.values() for part in parts), *(set(rows) - joined.keys())]:
            number[part] += 1
        found[separator] = [label for label, parts in joined.items() if any(number[part] > 1 for part in parts)]
    for separator in RARE_SEPARATORS:
        joined = {label: _parts(label, separator) for label in rows if separator in label}
        found[separator] = [
            label
            for label, parts in joined.items()
            if parts <= rows.keys() or all(part.startswith("__label__") for part in parts)  # fastText
        ]
    return [
        f"rows with labels that look like several labels in one, such as {list_names(map(_quoted, labels), 3)}: "
        f'{sum(rows[label] for label in labels):,}; if they are, set read.label_separator: "{separator}" and task: '
        f"multi in data/sources (epigram add --replace --label-separator '{separator}')"
        for separator, labels in found.items()
        if labels
    ]


def _parts(label: str, separator: str) -> set[str]:
    return {part.strip() for part in label.split(separator)}


def _spellings(rows: Rows) -> list[str]:
    """Return notes on labels that differ only by a step of SPELLINGS."""
    groups: dict[str, list[str]] = defaultdict(list)
    for label in rows:
        if not LIST_LIKE.fullmatch(label):
            groups[_fold(label)].append(label)
    several = [sorted(group, key=lambda label: -rows[label]) for group in groups.values() if len(group) > 1]
    notes = []
    for group in several[:MAX_NOTES]:
        counted = " and ".join(f"{_quoted(label)} ({rows[label]:,} row{'s' * (rows[label] > 1)})" for label in group)
        names = ", ".join(f"{_quoted(label)}: {_quoted(group[0])}" for label in group[1:])
        notes.append(
            f"the labels {counted} differ only in {' and '.join(_differences(group))}; if they are one label, set "
            f"read.names: {{{names}}} in data/sources"
        )
    more = len(several) - MAX_NOTES
    return [*notes, *([f"{more} more groups of labels differ only in spelling"] if more > 0 else [])]


def _missing_values(rows: Rows) -> list[str]:
    """Return a note on labels with which programs write a missing value."""
    if not (labels := [label for label in rows if MISSING.fullmatch(label)]):
        return []
    return [
        f"rows with labels that look like missing values, such as {list_names(map(_quoted, labels), 3)}: "
        f"{sum(rows[label] for label in labels):,}; if these texts have no label, empty the cells and add the file "
        "again (epigram add --replace)"
    ]


def _quoted(label: str) -> str:
    """Return the label in quotation marks, as JSON and YAML have it; characters that cannot be seen are escaped."""
    return json.dumps(label, ensure_ascii=label != visible_label(label) or not label.isprintable())


def _fold(label: str) -> str:
    """Return the label after all steps of SPELLINGS."""
    for change in SPELLINGS.values():
        label = change(label)
    return label


def _differences(labels: list[str]) -> list[str]:
    """Return the steps of SPELLINGS that change some of the labels only, or make labels equal."""
    steps = []
    for step, change in SPELLINGS.items():
        before, labels = labels, list(map(change, labels))
        changed = sum(one != other for one, other in zip(before, labels, strict=True))
        if 0 < changed < len(labels) or len(set(labels)) < len(set(before)):
            steps.append(step)
    return steps
