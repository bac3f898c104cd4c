"""Limits on what a file from elsewhere may make this machine read, store and wait for."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BYTES = 2 << 30  # of a file that is fetched, where its source declares no max_bytes
MAX_REDIRECTS = 10


@dataclass(frozen=True)
class Limits:
    """What a packed file may hold; beyond it, it is refused as a bomb."""

    members: int = 300_000  # of an archive, folders included
    unpacked: int = 8 << 30  # bytes of the whole archive
    taken: int = 1 << 30  # bytes of the members that are wanted
    ratio: int = 200  # unpacked bytes per packed byte
    free: int = 64 << 20  # unpacked bytes for which the ratio is not checked
    header: int = 16 << 10  # bytes of one extended tar header: a long path, attributes
    headers: int = 256 << 10  # bytes of all extended tar headers for which header_ratio is not checked
    header_ratio: int = 20
    seconds: float = 600.0

    def allowance(self, size: int) -> int:
        """Bytes that a packed file of `size` bytes may unpack to."""
        return min(self.unpacked, max(self.free, self.ratio * size))


LIMITS = Limits()
