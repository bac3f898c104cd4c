"""Labels that are paths: `goods/phone` is the label `phone` below the label `goods`."""

from __future__ import annotations

from collections.abc import Sequence

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError
from epigram.core.limits import list_names

LIKELY = "/", ">"  # separators that data sets use
MOST = 0.9  # share of the labels that contain the separator if it has a meaning


def label_path(label: str, separator: str) -> tuple[str, ...]:
    """Return the parts of a label, from the top level down; empty parts and the space around a part do not count."""
    return tuple(part for each in label.split(separator) if (part := each.strip())) or (label,)


def deepest_level(labels: Sequence[str], separator: str) -> int:
    """Return the largest number of parts of a label."""
    return max(len(label_path(label, separator)) for label in labels)


def level_names(labels: Sequence[str], separator: str, level: int) -> dict[str, str]:
    """Return the label of a level that each label is, or is below; the top level is 1.

    A label with fewer parts is itself. Raises ParameterError for a level that no label has.
    """
    paths = {label: label_path(label, separator) for label in labels}
    deepest = deepest_level(labels, separator)
    if not 1 <= level <= deepest:
        raise ParameterError(f"level is {level}, but the labels have the levels 1 to {deepest}")
    names: dict[tuple[str, ...], str] = {}
    for label, path in paths.items():
        names.setdefault(path[:level], label if len(path) <= level else separator.join(path[:level]))
    return {label: names[path[:level]] for label, path in paths.items()}


def check_hierarchy(separator: str, labels: Sequence[str], where: str) -> None:
    """Raise ParameterError, starting with `where`, for a separator that no label contains."""
    if separator and not any(separator in label for label in labels):
        raise ParameterError(
            f"{where} is {shown(repr(separator))}, which no label contains ({shown(list_names(labels, 3))}); expected "
            "the separator of levels in labels such as goods/phone"
        )


def hierarchy_notes(labels: Sequence[str]) -> list[str]:
    """Return a note if most labels contain the same separator, and two of them begin with the same part."""
    for separator in LIKELY:
        paths = {label: label_path(label, separator) for label in labels if separator in label}
        first = [path[0] for path in paths.values() if len(path) > 1]
        if len(first) >= MOST * len(labels) and (shared := next((name for name in first if first.count(name) > 1), "")):
            below = list_names((repr(label) for label, path in paths.items() if path[0] == shared), 2)
            return [
                f"labels look like paths, such as {below}; --hierarchy '{separator}' scores each level of the labels"
            ]
    return []
