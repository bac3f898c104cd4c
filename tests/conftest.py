"""Environment and fixtures of all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest

from epigram.core import masking
from tests.support.counting import pytest_terminal_summary  # noqa: F401  a pytest hook
from tests.support.order import long_files_first
from tests.support.prefect_home import add_database
from tests.support.temp_root import in_memory

pytest_plugins = ["tests.support.repositories"]  # fixtures

# Tests run in parallel, and more threads than cores slow each other down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A developer's own profile of Prefect may name a server.
os.environ.setdefault("PREFECT_PROFILES_PATH", "no-profiles.toml")
if root := in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", root)
# `make test` passes these to a make that a test starts, which then prints the folders it enters.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(name, None)


def pytest_configure() -> None:
    """Give this process a Prefect home: servers of parallel tests must not share a database or find each other."""
    home = Path(mkdtemp(prefix="epigram-prefect-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    os.environ["PREFECT_HOME"] = str(add_database(home))


def pytest_unconfigure() -> None:
    """Remove the Prefect home of this process."""
    shutil.rmtree(os.environ["PREFECT_HOME"], ignore_errors=True)


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
