"""Environment and fixtures of all tests."""

from __future__ import annotations

import os

from tests.support.counting import pytest_terminal_summary  # noqa: F401  a pytest hook

pytest_plugins = ["tests.support.repositories"]  # fixtures

# Tests run in parallel, and more threads than cores slow each other down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A developer's own profile of Prefect may name a server.
os.environ.setdefault("PREFECT_PROFILES_PATH", "no-profiles.toml")
# `make test` passes these to a make that a test starts, which then prints the folders it enters.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(name, None)
