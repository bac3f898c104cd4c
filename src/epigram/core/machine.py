"""Processors and memory that this process may use."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def count_processors() -> int:
    """Return the number of processors that this process is allowed to use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_machine() -> str:
    """Return the processor, its usable cores and the NVIDIA GPUs: "Intel Xeon, 2 cores"."""
    found = {"model name": [platform.machine()], "Model": []}
    for path in (Path("/proc/cpuinfo"), *Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
            name, _, value = line.partition(":")
            found.get(name.strip(), []).append(value.strip())
    cores = count_processors()
    return ", ".join([found["model name"][-1], f"{cores} core{'s' if cores > 1 else ''}", *found["Model"]])


HEADROOM = 64 << 20  # bytes; with less left, allocations of libraries fail


def has_limit(pid: int) -> bool:
    """Return whether a process has an address space limit, or the system does not overcommit memory."""
    strict = "/proc/sys/vm/overcommit_memory"
    overcommit = Path(strict)
    return _limit(pid) is not None or (overcommit.is_file() and overcommit.read_text(encoding="utf-8").strip() == "2")


def is_near_limit(pid: int | None = None) -> bool:
    """Return whether a process (default: this one) is near its address space limit."""
    limit = _limit(pid or 0)
    if limit is None:
        return False
    pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text(encoding="utf-8").split()[0])
    return limit - pages * os.sysconf("SC_PAGESIZE") < HEADROOM


def _limit(pid: int) -> int | None:
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, prlimit

        limit = prlimit(pid, RLIMIT_AS)[0]
    except (ImportError, OSError):  # not Linux, the process has ended, or access is not permitted
        return None
    return None if limit == RLIM_INFINITY else limit
