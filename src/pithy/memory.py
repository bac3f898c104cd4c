"""How much address space a process may still take, where Linux limits it (`ulimit -v`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NEAR = 64 << 20  # bytes: with less left, libraries no longer find what they ask for


def limited(pid: int) -> bool:
    """Whether the address space of a process, or all memory that is promised, has a limit."""
    strict = "/proc/sys/vm/overcommit_memory"
    return _limit(pid) is not None or (Path(strict).is_file() and Path(strict).read_text().strip() == "2")


def used_up(pid: int | None = None) -> bool:
    """Whether a process, by default this one, is near its limit."""
    limit = _limit(pid or 0)
    if limit is None:
        return False
    pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[0])
    return limit - pages * os.sysconf("SC_PAGESIZE") < NEAR


def _limit(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    import resource

    try:
        limit = resource.prlimit(pid, resource.RLIMIT_AS)[0]
    except OSError:  # it is gone, or this may not be asked
        return None
    return None if limit == resource.RLIM_INFINITY else limit
