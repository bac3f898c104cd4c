"""A search of a project: what params.yaml gets, and that DVC alone repeats it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from epigram.core.files import sha256
from tests.support.shop import TWO_STAGES, lay_out
from tests.support.toy import command_env

pytestmark = [pytest.mark.slow, pytest.mark.extended]


def run(folder: Path, *command: str, server: str = "", code: int = 0) -> str:
    words, env = [sys.executable, "-m", *command], command_env() | {"PREFECT_API_URL": server}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def unsearched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of two stages with a system that no search tries."""
    folder = tmp_path_factory.mktemp("unsearched") / "repo"
    lay_out(folder, command_env(), **TWO_STAGES)
    params = (folder / "params.yaml").read_text(encoding="utf-8").replace("tfidf_svm", "smsp_e")
    (folder / "params.yaml").write_text(params + "# a comment of the user\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def searched(unsearched: Path, prefect_url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project in which a search was run, and what it printed."""
    folder = Path(shutil.copytree(unsearched, tmp_path_factory.mktemp("searched") / "repo"))
    command = ("epigram.cli", "run", "--search", "10s", "--name", "found")
    return folder, run(folder, *command, server=prefect_url)


def test_the_choice_stands_in_params_and_is_what_the_run_trains(searched: tuple[Path, str]) -> None:
    folder, printed = searched
    params = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    assert "tfidf_svm" in params["systems"] and len(params["systems"]) <= 2
    assert set(params["views"]) == {system["view"] for system in params["systems"].values()}
    assert f"the systems are now {' and '.join(params['systems'])}" in printed
    assert {path.name for path in (folder / "data/evaluated").iterdir()} == set(params["systems"])
    assert "# a comment of the user" in (folder / "params.yaml").read_text(encoding="utf-8")


def test_the_next_run_and_dvc_have_nothing_to_do(searched: tuple[Path, str]) -> None:
    folder, _ = searched
    weights = {path: sha256(path) for path in folder.glob("data/models/*/*/model.safetensors")}
    assert "\n0 of " in "\n" + run(folder, "epigram.cli", "run")
    assert "Running stage" not in run(folder, "dvc", "repro")
    assert weights and {path: sha256(path) for path in weights} == weights


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
        ("local: data/local/x.jsonl", 65, "line 2"),
        (f"url: 'http://127.0.0.1:9/x.jsonl', sha256: '{64 * '0'}'", 69, "127.0.0.1:9"),
    ],
)
def test_a_search_ends_with_the_exit_code_of_what_failed_and_changes_nothing(
    origin: str, code: int, said: str, unsearched: Path, prefect_url: str, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(unsearched, tmp_path / "repo"))
    (folder / "data/sources/mine.yaml").write_text(SOURCE.format(origin=origin))
    (folder / "data/local/x.jsonl").write_text('{"text": "fine", "label": "good"}\n{broken\n')
    params = (folder / "params.yaml").read_text(encoding="utf-8").replace("dataset: shop", "dataset: mine")
    (folder / "params.yaml").write_text(params, encoding="utf-8")
    before = (folder / "params.yaml").read_bytes()
    printed = run(folder, "epigram.cli", "run", "--search", "10m", server=prefect_url, code=code)
    assert said in printed and "Traceback" not in printed
    assert (folder / "params.yaml").read_bytes() == before
