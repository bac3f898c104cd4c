"""Tests of `epigram doctor`: each check against machines and projects with a known defect."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import epigram
from epigram.checkpoints.folders import checkpoint_folder
from epigram.cli.app import app
from epigram.data.sources.hub_models import download_checkpoint
from epigram.runner import git
from epigram.runner.doctor import installation, machine, project
from epigram.runner.doctor.installation import CheckResult, exit_status, run_checks
from epigram.runner.project.files import TemplateRecord
from tests.support.doctor import results
from tests.support.hub_server import CHECKPOINT, hub
from tests.support.tiny_bert import write_bert

TEMPLATE = "{repo_id}/resolve/{revision}/{filename}"


def test_the_exit_code_is_that_of_the_first_problem() -> None:
    good, bad = CheckResult("a", "ok", ""), CheckResult("b", "warning", "", "x")
    assert exit_status([good, bad]) == 0
    assert exit_status([good, CheckResult("c", "problem", "", "", 69), CheckResult("d", "problem", "", "", 64)]) == 69


def test_a_check_that_fails_is_a_problem_and_the_others_run() -> None:
    def no_torch() -> Iterator[CheckResult]:
        raise ImportError("libcuda.so.1 is missing")
        yield

    first, second = run_checks([no_torch, installation.python])
    assert (first.name, first.status, first.code) == ("no torch", "problem", 70)
    assert "libcuda.so.1 is missing" in first.found
    assert second.status == "ok"


REQUIRED = ["alpha==1.2.*", "beta", 'gamma>=3 ; extra == "pipeline"', 'delta<2 ; extra == "onnx"']


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (
            {"alpha": "1.2.9", "beta": "7", "gamma": "3.1"},
            [("packages", "ok", "2 in the tested version"), ("pipeline", "ok", "1 in the tested version")],
        ),
        (
            {"alpha": "1.3.0", "gamma": "3"},
            [
                ("packages", "warning", "alpha 1.3.0; tested with alpha==1.2.*"),
                ("packages", "problem", "beta is not installed"),
                ("pipeline", "ok", "1 in the tested version"),
            ],
        ),
        (
            {"alpha": "1.2.0", "beta": "1", "delta": "2.0"},
            [
                ("packages", "ok", "2 in the tested version"),
                ("pipeline", "warning", "not installed; only predict and the Python API work"),
                ("onnx", "warning", "delta 2.0; tested with delta<2"),
            ],
        ),
    ],
)
def test_installed_versions_are_compared_with_the_required_ones(
    installed: dict[str, str], expected: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise installation.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(installation, "requires", lambda name: REQUIRED)
    monkeypatch.setattr(installation, "version", version)
    found = list(installation.packages())
    assert [(each.name, each.status, each.found) for each in found] == expected
    assert all("pip install" in each.fix for each in found if each.status != "ok")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("git version 2.39.5 (Apple Git-154)", ("ok", "2.39.5")),
        ("git version 2.9.1", ("warning", "version 2.9.1")),  # an older one, although "9" is after "20" as text
    ],
)
def test_the_version_of_git_is_compared_as_a_number(
    output: str, expected: tuple[str, str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place / "git"
    program.write_text(f"#!/bin/sh\necho '{output}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    assert results(installation.git) == [expected]
    program.unlink()
    assert results(installation.git) == [("problem", "not installed")]


def make_project(place: Path, version: str) -> None:
    place.mkdir(exist_ok=True)
    (place / "dvc.yaml").touch()
    TemplateRecord(version, {}).write(place)


def test_the_version_of_the_project(place: Path) -> None:
    assert results(project.project)[0][1].startswith("none in this folder")
    make_project(place, "0.0.1")
    (found,) = project.project()
    assert (found.status, found.code, found.fix) == (
        "problem",
        64,
        "run `epigram init --update`, or install epigram 0.0.1",
    )
    assert f"for epigram 0.0.1, but epigram {epigram.__version__} is installed" in found.found
    make_project(place, epigram.__version__)
    (found,) = project.project()
    assert (found.status, found.code, found.fix) == ("problem", 66, "run git init in the folder of the project")
    assert found.found == f"{place} is in no git repository"
    git.git(place, "init", "--quiet")
    assert results(project.project) == [("problem", f"{place} has no folder .dvc")]
    make_project(place / "inner", epigram.__version__)
    with contextlib.chdir(place / "inner"):
        (found,) = project.project()
    assert (found.status, found.code) == ("problem", 64)
    assert found.found == f"{place}/inner is inside the git repository {place}"
    (place / ".dvc").mkdir()
    assert results(project.project) == [("ok", f"for epigram {epigram.__version__}")]
    (place / "epigram.yaml").unlink()
    assert results(project.project) == [("ok", "the repository of epigram")]


def test_checkpoints_of_the_hub(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert results(project.hub_checkpoints) == []  # no project
    make_project(place, "1")
    views = {
        "a": {"checkpoint": CHECKPOINT},
        "b": {"checkpoint": CHECKPOINT},
        "c": {"checkpoint": "data/local/x"},
        "d": {},
    }
    (place / "params.yaml").write_text(json.dumps({"views": views}))
    write_bert(place / "model", ("good",))
    with hub() as server:
        server.add(place / "model")
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", f"{server.address}/{TEMPLATE}")
        found = f"{CHECKPOINT} is not downloaded yet (3 files, 0.0 MB)"
        assert results(project.hub_checkpoints) == [("ok", found)]
        assert server.fetched == set()
        download_checkpoint(CHECKPOINT)
        assert results(project.hub_checkpoints) == [("ok", f"{CHECKPOINT} is downloaded and unchanged")]
        (checkpoint_folder(CHECKPOINT) / "vocab.txt").open("a").write("bad\n")
        assert [each.code for each in project.hub_checkpoints()] == [65]
        server.status = 503
        views = {"a": {"checkpoint": f"hub:org/name@{'0' * 40}"}, "b": {"checkpoint": "hub:org/name@main"}}
        (place / "params.yaml").write_text(json.dumps({"views": views}))
        assert [(each.status, each.code) for each in project.hub_checkpoints()] == [("problem", 69), ("problem", 64)]


@pytest.fixture
def two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the first two checks by known results, and all others by none."""
    for module in (installation, machine, project):
        for name, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__module__", "") == module.__name__ and name in CHECKS:
                monkeypatch.setattr(module, name, lambda: iter(()))
    monkeypatch.setattr(installation, "python", lambda: iter([CheckResult("python", "ok", "3.11.7")]))
    found = CheckResult("disk", "problem", "0.1 GiB free\x1b[2J", "free disk space", 74)
    monkeypatch.setattr(machine, "disk", lambda: iter([found]))


CHECKS = {"python", "packages", "git", "disk", "gpu", "project", "hub_checkpoints"}


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("sys.argv", ["epigram", "doctor", *arguments])
    with pytest.raises(SystemExit) as end:
        app()
    return end.value.code


def test_the_checks_are_printed_one_per_line(
    two_lines: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch=monkeypatch) == 74
    out = "ok: python: 3.11.7\nproblem: disk: 0.1 GiB free; to fix it: free disk space\n"
    assert capsys.readouterr() == (out, "")


def test_the_checks_as_json(
    two_lines: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--json", monkeypatch=monkeypatch) == 74
    first, second = json.loads(capsys.readouterr().out)
    assert first == {"name": "python", "status": "ok", "found": "3.11.7", "fix": "", "code": 0}
    assert (second["name"], second["status"], second["code"]) == ("disk", "problem", 74)


def test_all_checks_run_on_this_machine(place: Path) -> None:
    command = [sys.executable, "-m", "epigram.cli", "doctor", "--json"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=120)
    found = json.loads(done.stdout)
    names = {each["name"] for each in found}
    assert {"python", "packages", "git", "disk", "gpu", "project"} <= names
    problems = [each for each in found if each["status"] == "problem"]
    assert done.returncode == (problems[0]["code"] if problems else 0)
