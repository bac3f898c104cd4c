"""The processors of the machine, and how they are described."""

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
