"""The toy repository and one Prefect server for all tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import epigram.runner  # noqa: F401  gives Prefect its settings before it is imported
from tests.support.toy import DVC_YAML, PARAMS, STEP, Toy, command_env, copied


@pytest.fixture
def toy(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A fresh repository with one commit."""
    return copied(pristine, tmp_path, monkeypatch)


@pytest.fixture
def done(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A repository in which every stage is up to date."""
    return copied(finished, tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def finished(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pristine repository after `dvc repro`."""
    folder = tmp_path_factory.mktemp("finished")
    repo = copied(pristine, folder, pytest.MonkeyPatch())
    repo.shell("dvc", "repro", "--quiet")
    return repo.root


SOURCE = """\
name: {name}
about: a few texts
language: en
task: single
licence: none
files: [{{path: x.jsonl, local: data/local/x.jsonl}}]
read: {{reader: jsonl{spans}}}
"""


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that every test copies."""
    root = tmp_path_factory.mktemp("pristine")
    (root / "data" / "sources").mkdir(parents=True)
    (root / "data" / "local").mkdir()
    files = {
        "dvc.yaml": DVC_YAML,
        "params.yaml": PARAMS,
        "step.py": STEP,
        ".gitignore": "/out/\n/runs/\n/.epigram/\n/data/local/*\n!/data/local/.gitkeep\n__pycache__/\n",
        "data/local/.gitkeep": "",
        "data/sources/toy.yaml": SOURCE.format(name="toy", spans=", spans: evidence"),
        "data/sources/other.yaml": SOURCE.format(name="other", spans=""),
    }
    for name, text in files.items():
        (root / name).write_text(text)
    commands = [
        "git init --quiet",
        "dvc init --quiet",
        "dvc config core.analytics false",
        "git add --all",
        "git -c user.name=t -c user.email=t@t commit --quiet -m toy",
    ]
    for command in commands:
        subprocess.run(command.split(), cwd=root, env=command_env(), check=True, capture_output=True)
    return root


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """One temporary Prefect server for every test that runs the flow in this process."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield
