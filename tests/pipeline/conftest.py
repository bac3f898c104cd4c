"""Fixtures: the toy repository, and one Prefect server for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import epigram.runner  # noqa: F401  sets Prefect's settings before Prefect is imported
from tests.support.toy import Toy, copied


@pytest.fixture
def toy(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Return a new repository with one commit."""
    return copied(pristine, tmp_path, monkeypatch)


@pytest.fixture
def done(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Return a repository in which every stage is up to date."""
    return copied(finished, tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Provide one temporary Prefect server for every test that runs the flow in this process."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield
