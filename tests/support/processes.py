"""Helpers that wait for conditions and inspect processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil


def until(true: Callable[[], Any], seconds: float = 120.0, otherwise: Callable[[], Any] = str) -> Any:
    """Wait for a condition and return its value; fail with what `otherwise` returns if it stays false."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"the condition stayed false for {seconds:g} s: {otherwise()}"
        time.sleep(0.05)
    return found


def gone(process: psutil.Process) -> bool:
    """Return whether a process has ended; a zombie counts as ended."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def command_line(process: psutil.Process) -> str:
    """Return the words with which a process was started, separated by spaces; "" if it has ended."""
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.NoSuchProcess:
        return ""


def alive(pid: int) -> bool:
    """Return whether the process `pid` runs."""
    try:
        return not gone(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False
