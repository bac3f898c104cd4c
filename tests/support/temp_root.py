"""Folder of the tests' temporary files: in memory, where a file is deleted in microseconds.

A run of all tests writes more than 100,000 files, and pytest deletes those of an earlier run at its end. On a disk that
is mounted with `discard` this takes milliseconds for each file.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

ROOM = 12 << 30  # bytes; far more than the tests keep at a time


def in_memory(folder: Path = Path("/dev/shm"), room: int = ROOM) -> str | None:
    """Return `folder` if it and the memory have enough room and programs can run there, otherwise None."""
    try:
        space = os.statvfs(folder)
    except OSError:
        return None
    free = min(space.f_bavail * space.f_frsize, psutil.virtual_memory().available)
    return None if free < room or space.f_flag & os.ST_NOEXEC else str(folder)
