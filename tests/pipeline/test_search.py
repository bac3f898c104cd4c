"""A run with a time budget, and the replay of its plan, on the project's own pipeline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from epigram.core.files import sha256
from tests.support.project_copy import tree
from tests.support.toy import command_env

pytestmark = [pytest.mark.slow, pytest.mark.extended]


def run(folder: Path, *command: str, code: int = 0) -> str:
    env = command_env() | {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'src'}"}
    words = [sys.executable, "-m", *command]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tree(tmp_path_factory.mktemp("searched"))
    run(folder, "epigram.cli", "run", "--budget", "10m", "--quality", "fast", "--name", "found")
    return folder


def test_the_plan_has_systems_and_settings_and_no_time(searched: Path) -> None:
    plan = yaml.safe_load((searched / "runs/found/plan.yaml").read_text())
    assert {"tfidf_svm"} <= set(plan["systems"]) <= {"tfidf_svm", "embedding_linear", "hybrid_linear"}
    assert plan["dataset"] == "pocket_zh" and plan["seeds"] == [0]
    sections = {"dataset", "seeds", "views", "systems", "pos_table", "prune", "compare", "train", "validate", "encode"}
    assert set(plan) == sections | {"evaluate", "ensemble"}
    assert plan["train"] == {"epochs": 1}


def test_the_replay_of_a_plan_in_another_clone_trains_the_same(searched: Path, tmp_path: Path) -> None:
    """Nothing is cached there, and params.yaml has other settings."""
    clone = tree(tmp_path / "clone")
    shutil.copy(searched / "runs/found/plan.yaml", clone)
    params = yaml.safe_load((clone / "params.yaml").read_text())
    params |= {"train": {"class_weight": "balanced", "max_length": 9}, "validate": {"split_seed": 1}}
    params |= {"ensemble": {"enabled": False}}
    (clone / "params.yaml").write_text(yaml.safe_dump(params))
    said = run(clone, "epigram.cli", "run", "--plan", "plan.yaml", "--name", "again")
    assert "\n0 of " not in f"\n{said}"
    found = checksums(searched / ".epigram/workspaces/pocket_zh-search")
    assert "data/models/tfidf_svm/seed-0/model.safetensors" in found
    [space] = [path for path in (clone / ".epigram/workspaces").iterdir() if path.is_dir()]
    assert checksums(space) == found


def checksums(space: Path) -> dict[str, str]:
    """Return the checksums of the weights, the metrics and the predictions of a run in the workspace `space`."""
    files = [*space.glob("data/models/*/*/*.safetensors"), *space.glob("data/evaluated/**/*")]
    return {str(file.relative_to(space)): sha256(file) for file in files if file.is_file()}


def test_dvc_alone_finds_the_planned_run_up_to_date(searched: Path) -> None:
    space = searched / ".epigram/workspaces/pocket_zh-search"  # of the search and of the run that followed it
    assert "Running stage" not in run(space, "dvc", "repro")
    params = yaml.safe_load((space / "params.yaml").read_text())
    plan = yaml.safe_load((searched / "runs/found/plan.yaml").read_text())
    assert {name: params[name] for name in plan} == plan


def test_the_same_search_again_continues_its_plan(searched: Path) -> None:
    said = run(searched, "epigram.cli", "run", "--budget", "10m", "--quality", "fast", "--name", "repeated")
    assert "the plan is that of the last search" in said and "trial of" not in said
    assert "\n0 of " in f"\n{said}"
    assert (searched / "runs/repeated/plan.yaml").read_text() == (searched / "runs/found/plan.yaml").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--budget", "10m", "--systems", "tfidf_svm"], "--budget and --plan set systems, settings and seeds"),
        (["--quality", "best"], "--quality needs a time budget"),
        (["--plan", "none.yaml"], "none.yaml is missing"),
        (["--plan", "params.yaml"], "params.yaml: "),
        (["--budget", "soon"], "invalid budget 'soon'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(searched: Path, options: list[str], said: str) -> None:
    code = 66 if "none.yaml" in options else 64
    assert said in run(searched, "epigram.cli", "run", *options, code=code)


SOURCE = """\
name: mine
about: a few texts
language: en
task: single
licence: none
files: [{{path: x.jsonl, {origin}}}]
read: {{reader: jsonl}}
"""


@pytest.mark.parametrize(
    ("origin", "code", "said"),
    [
        ("local: data/local/x.jsonl", 65, "x.jsonl line 2 is not a JSON object"),
        (f"url: 'http://127.0.0.1:9/x.jsonl', sha256: '{64 * '0'}'", 69, "127.0.0.1:9"),
    ],
)
def test_a_search_ends_with_the_exit_code_of_the_stage_that_failed(
    origin: str, code: int, said: str, tmp_path: Path
) -> None:
    folder = tree(tmp_path)
    (folder / "data/sources/mine.yaml").write_text(SOURCE.format(origin=origin))
    (folder / "data/local/x.jsonl").write_text('{"text": "fine", "label": "good"}\n{broken\n')
    params = yaml.safe_load((folder / "params.yaml").read_text())
    (folder / "params.yaml").write_text(yaml.safe_dump(params | {"download": {"tries": 1}}))
    printed = run(folder, "epigram.cli", "run", "--dataset", "mine", "--budget", "10m", code=code)
    assert said in printed and "Traceback" not in printed
