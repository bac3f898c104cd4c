"""Environment and fixtures of all tests."""

from __future__ import annotations

import os

import pytest

from epigram.core import masking
from tests.support.counting import pytest_terminal_summary  # noqa: F401  a pytest hook
from tests.support.order import long_files_first

pytest_plugins = ["tests.support.repositories"]  # fixtures

# Tests run in parallel, and more threads than cores slow each other down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A developer's own profile of Prefect may name a server.
os.environ.setdefault("PREFECT_PROFILES_PATH", "no-profiles.toml")
# `make test` passes these to a make that a test starts, which then prints the folders it enters.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(name, None)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects the tests of a marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that use a Prefect server as extended, and begin a parallel run with the long files.

    A long file that begins last leaves the other processes idle.
    """
    for item in items:
        if "prefect_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.extended)
    if hasattr(config, "workerinput"):
        items[:] = long_files_first(items)


@pytest.fixture(autouse=True)
def nothing_masked() -> None:
    """Forget what an earlier test of this process has masked."""
    masking.mask([])
