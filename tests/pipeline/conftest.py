"""Fixtures: the toy repository, and one Prefect server for all tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import epigram.runner  # noqa: F401  sets Prefect's settings before Prefect is imported
from tests.support.champions import promoted
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


@pytest.fixture(scope="session")
def prefect_url(prefect_server: None) -> str:
    """Return the address of this server, for commands that would start one of their own."""
    from prefect.settings import PREFECT_API_URL

    return str(PREFECT_API_URL.value())


@pytest.fixture(scope="session")
def thrice(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository that has had three champions."""
    toy = copied(pristine, tmp_path_factory.mktemp("thrice"), pytest.MonkeyPatch())
    for number in (1, 2, 3):
        promoted(toy, number)
    return toy.root


@pytest.fixture
def reign(thrice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    shutil.copytree(thrice, tmp_path / "repo", symlinks=True)
    return Toy(tmp_path / "repo", tmp_path)
