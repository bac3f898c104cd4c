"""Limits on downloads and archives, and on what a report, a note or an artifact shows of data with many labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


MAX_BYTES = 2 << 30  # bytes of a download, if its source declares no max_bytes
MAX_REDIRECTS = 10


@dataclass(frozen=True)
class Limits:
    """Limits on a compressed file; a file beyond them is rejected as an archive bomb."""

    members: int = 300_000  # members of an archive, including folders
    unpacked: int = 8 << 30  # unpacked bytes of the whole archive
    taken: int = 1 << 30  # bytes of the members that are repacked
    ratio: int = 200  # unpacked bytes per packed byte
    free: int = 64 << 20  # unpacked bytes up to which the ratio is not checked
    header: int = 16 << 10  # bytes of one extended tar header: a long path, attributes
    headers: int = 256 << 10  # bytes of all extended tar headers up to which header_ratio is not checked
    header_ratio: int = 20  # bytes of extended tar headers per packed byte
    seconds: float = 600.0  # time to unpack the archive

    def allowance(self, size: int) -> int:
        """Return how many bytes a compressed file of `size` bytes may unpack to."""
        return min(self.unpacked, max(self.free, self.ratio * size))


LIMITS = Limits()
