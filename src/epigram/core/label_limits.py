"""Limits of what a report, a note or an artifact shows of data with many labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

MAX_CLASSES = 60  # labels in a table or a chart
MAX_NAMES = 20  # names in a table cell


def most_frequent(counts: Sequence[int], limit: int = MAX_CLASSES) -> list[int]:
    """Return the places of the `limit` largest counts in ascending order; of equal counts, the first are returned."""
    ranked = sorted(range(len(counts)), key=lambda place: -counts[place])
    return sorted(ranked[:limit])


def list_names(names: Iterable[object], limit: int = MAX_NAMES) -> str:
    """Return the first `limit` names with commas between them, and "…" if there are more."""
    first = list(map(str, islice(names, limit + 1)))
    return ", ".join([*first[:limit], *(["…"] if len(first) > limit else [])])
