"""The project's own pipeline on a small corpus, run by DVC and by Prefect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.project_copy import tree
from tests.support.toy import command_env

ROOT = Path(__file__).parents[2]

TEXTS = {  # each text with the label that its words have in the corpus
    "难吃": "negative",
    "味道真好，下次还来": "positive",
    "房间很脏，服务很差": "negative",
    "非常满意": "positive",
}

pytestmark = [pytest.mark.slow, pytest.mark.extended]


def run(folder: Path, *command: str) -> str:
    env = command_env() | {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'src'}"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dvc(folder: Path, *arguments: str) -> str:
    return run(folder, sys.executable, "-m", "dvc", *arguments)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a project in which the flow has run, and what it printed."""
    folder = tree(tmp_path_factory.mktemp("by_prefect"))
    return folder, run(folder, sys.executable, "-m", "epigram.cli", "run")


def executed(folder: Path, *arguments: str) -> set[str]:
    """Return the stages (without their item) that a reproduction runs."""
    lines = dvc(folder, "repro", *arguments).splitlines()
    return {line.split("'")[1].split("@")[0] for line in lines if line.startswith("Running stage")}


def changed(folder: Path) -> set[str]:
    """Return the stages (without their item) whose dependencies, parameters, commands or outputs have changed."""
    return {stage.split("@")[0] for stage in json.loads(dvc(folder, "status", "--json"))}


def changed_param(folder: Path, section: str, **values: Any) -> None:
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params[section] |= values
    (folder / "params.yaml").write_text(yaml.safe_dump(params))


def test_a_run_leaves_dvc_nothing_to_do_and_writes_its_report(finished: tuple[Path, str]) -> None:
    folder, said = finished
    lock = (folder / "dvc.lock").read_bytes()
    assert executed(folder) == set()
    assert (folder / "dvc.lock").read_bytes() == lock
    assert "tfidf_svm" in said and (folder / "runs/latest/report.html").exists()
    report = (folder / "runs/latest/report.html").read_text()
    assert "Speed on this machine" in report and "Suspected labels" in report
    assert (folder / "runs/latest/suspects.csv").read_text().startswith("file,line,label,likely_label,margin,text\n")
    answers = run(folder, sys.executable, "-m", "epigram.cli", "predict", "runs/latest/model", *TEXTS)
    assert [line.split("\t")[0] for line in answers.splitlines()] == list(TEXTS.values())


def test_a_parameter_of_prune_changes_prune_only(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    before = (folder / "params.yaml").read_text()
    changed_param(folder, "prune", tolerance=0.02)
    assert changed(folder) == {"prune"}
    (folder / "params.yaml").write_text(before)
    assert changed(folder) == set()


def test_a_touched_helper_module_runs_what_imports_it(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    helper = folder / "src/epigram/models/batches.py"
    before = helper.read_text()
    helper.write_text(before + "\n# changed\n")
    stages = executed(folder, "--dry")
    helper.write_text(before)
    assert "train" in stages and not stages & {"download", "validate", "pos_table", "augment", "encode"}
