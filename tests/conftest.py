"""One thread a process: tests run side by side, and threads that outnumber the cores wait for each other."""

from __future__ import annotations

import os

from tests.fuzz.counting import pytest_terminal_summary  # noqa: F401  a hook

os.environ.setdefault("OMP_NUM_THREADS", "1")
