"""Processors that this process may use."""

from __future__ import annotations

import os


def count_processors() -> int:
    """Return the number of processors that this process is allowed to use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
