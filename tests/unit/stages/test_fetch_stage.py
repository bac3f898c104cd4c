"""Tests of the download stage as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = """name: toy
about: a toy
language: en
task: single
licence: none
files: [{path: train.csv, local: data/local/toy.csv}]
read: {reader: csv}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    for folder in ("data/sources", "data/local"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data/sources/toy.yaml").write_text(SOURCE)
    (tmp_path / "data/local/toy.csv").write_text("text,label\na,1\n")
    return tmp_path


def stage() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epigram.stages.download", "data/sources/toy.yaml", "data/raw"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_writes_the_files_and_the_source(here: Path) -> None:
    done = stage()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "train.csv from data/local/toy.csv\n"
    files = {path.name: path.read_bytes() for path in (here / "data/raw").iterdir()}
    assert sorted(files) == ["source.json", "train.csv"]
    stage()
    assert {path.name: path.read_bytes() for path in (here / "data/raw").iterdir()} == files


def test_a_failure_leaves_the_last_result(here: Path) -> None:
    stage()
    (here / "data/local/toy.csv").unlink()
    failed = stage()
    assert failed.returncode == 66
    assert failed.stderr.startswith("error: data/local/toy.csv is missing")
    assert sorted(path.name for path in (here / "data").iterdir()) == ["local", "raw", "sources"]
    assert (here / "data/raw/train.csv").is_file()


def test_no_network_ends_with_69(here: Path) -> None:
    dead = "http://127.0.0.1:1/train.csv"
    (here / "data/sources/toy.yaml").write_text(SOURCE.replace("local: data/local/toy.csv", f"url: '{dead}'"))
    params = (ROOT / "params.yaml").read_text()
    assert "{tries: 4," in params
    (here / "params.yaml").write_text(params.replace("{tries: 4,", "{tries: 1,"))
    failed = stage()
    assert failed.returncode == 69
    assert dead in failed.stderr.splitlines()[0]
    assert "Traceback" not in failed.stderr
    assert not (here / "data/raw").exists()


def test_a_slip_in_the_source_ends_with_64(here: Path) -> None:
    (here / "data/sources/toy.yaml").write_text(SOURCE + "langauge: zh\n")
    failed = stage()
    assert failed.returncode == 64
    assert failed.stderr == "error: data/sources/toy.yaml: langauge is not a setting: did you mean 'language'?\n"
