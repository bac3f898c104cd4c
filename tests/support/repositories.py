"""Fixtures: repositories that tests copy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.shop import lay_out
from tests.support.toy import DVC_YAML, PARAMS, STEP, add_flows, command_env, copied

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
    """Return the repository that every test copies."""
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
    add_flows(root)
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
def finished(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the pristine repository after `dvc repro`."""
    folder = tmp_path_factory.mktemp("finished")
    repo = copied(pristine, folder, pytest.MonkeyPatch())
    repo.shell("dvc", "repro", "--quiet")
    return repo.root


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the shop's repository before the first retraining."""
    root = tmp_path_factory.mktemp("bare") / "repo"
    lay_out(root, command_env())
    return root
