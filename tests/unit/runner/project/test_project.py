"""Tests of `epigram init`: a new project, its dependency on the installed version, and its update."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import epigram
from epigram.cli.app import COMMANDS, app
from epigram.core.errors import InputMissingError, ParameterError
from epigram.data.validation import violations
from epigram.runner.dvc import graph
from epigram.runner.project import template
from epigram.runner.project.files import TemplateRecord, check_version, create, read, update
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import open_workspace

ROOT = Path(__file__).parents[4]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["epigram", *map(str, arguments)])
        try:
            app()
            code: Any = 0
        except SystemExit as end:
            code = end.code
        return (int(code or 0), *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "original"
    create(folder)
    return folder


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-r", original, tmp_path / "project"], check=True)
    return tmp_path / "project"


def test_the_guide_names_commands_and_paths_that_a_project_has(original: Path) -> None:
    guide = (original / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^    )epigram ([a-z]+)", guide, re.MULTILINE))
    assert {"add", "run", "retrain"} <= named <= COMMANDS.keys()
    paths = re.findall(r"`((?:data|flows|tasks|[a-z]+\.yaml)[a-z/]*)`", guide)
    assert {"params.yaml", "dvc.yaml", "data/sources/", "data/local/", "flows/", "tasks/"} <= set(paths)
    inbox = yaml.safe_load((original / "params.yaml").read_text())["retrain"]["incoming"]
    assert inbox in paths
    assert [path for path in paths if not (original / path).exists()] == []


def test_params_yaml_names_each_setting_that_a_violation_advises(original: Path) -> None:
    section = (original / "params.yaml").read_text(encoding="utf-8").partition("\nvalidate:")[2].partition("\n\n")[0]
    assert [name for name in violations.SETTINGS.values() if name not in section] == []


def edges(root: Path) -> dict[str, tuple[frozenset[str], list[str]]]:
    found = graph.read(root)
    return {stage.name: (stage.needs, [out.relative_to(root).as_posix() for out in stage.outs]) for stage in found}


def test_the_graph_of_a_project_is_that_of_the_repository(original: Path, tmp_path: Path) -> None:
    for name, path in template.files_of(ROOT).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(path.read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    own = edges(tmp_path.resolve())
    assert edges(original.resolve()) == own and len(own) > 20


def test_every_stage_depends_on_the_version_instead_of_the_code(original: Path) -> None:
    ours, theirs = (yaml.safe_load((root / "dvc.yaml").read_text()) for root in (ROOT, original))
    assert list(ours["stages"]) == list(theirs["stages"]) and len(ours["stages"]) == 12
    for name, stage in ours["stages"].items():
        own, copy = (each.get("do", each) for each in (stage, theirs["stages"][name]))
        assert copy.pop("params") == [*own.pop("params"), {"epigram.yaml": ["version"]}]
        assert copy.pop("deps") == [dep for dep in own.pop("deps") if not dep.startswith("src/")]
        assert copy == own
    assert {**ours, "stages": {}} == {**theirs, "stages": {}}


def test_the_files_of_a_project_are_the_repository_s_and_all_committed(original: Path) -> None:
    tracked = subprocess.check_output(["git", "ls-files"], cwd=original, text=True).splitlines()
    assert set(tracked) == {*template.files_of(ROOT), "epigram.yaml", "README.md"}
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=original, text=True) == ""
    for name in ("params.yaml", "flows/pipeline.py", "data/pocket/pocket_zh.jsonl", ".dvc/config"):
        assert (original / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("[user]\nname = Ann\nemail = ann@example.org\n", "Ann <ann@example.org>\n"),
        ("[user]\nname = Ann\nemail =\n", "epigram <epigram@localhost>\n"),
    ],
)
def test_the_first_commit_has_the_user_s_name_or_ours(
    settings: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text(settings)
    monkeypatch.setenv("HOME", str(tmp_path))
    create(tmp_path / "demo")
    author = subprocess.check_output(["git", "log", "--format=%an <%ae>"], cwd=tmp_path / "demo", text=True)
    assert author == expected


def test_a_new_project_is_announced_with_the_next_commands(tmp_path: Path, run: Run) -> None:
    (tmp_path / "empty").mkdir()
    code, out, err = run("init", tmp_path / "empty")
    assert (code, err) == (0, "")
    assert f"created a project for epigram {epigram.__version__}" in out
    assert f"  cd {tmp_path / 'empty'}\n  epigram run" in out
    assert (tmp_path / "empty" / "dvc.yaml").is_file()


def test_a_folder_with_files_is_refused_and_unchanged(tmp_path: Path, run: Run) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    code, out, err = run("init", tmp_path)
    assert (code, out) == (64, "")
    assert err.startswith(f"error: {tmp_path} is not empty; ")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert run("init")[0] == 64


def test_without_git_nothing_is_written(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = run("init", tmp_path / "demo")
    assert code == 66 and err.startswith("error: git is not installed; install it")
    assert list(tmp_path.iterdir()) == []


def make_older(root: Path) -> None:
    """Make the project one of version 0.0.1, which had another flow and two files more, but no sweep."""
    record = read(root)
    assert record is not None
    files = dict(record.files)
    del files["flows/sweep.py"]
    (root / "flows/sweep.py").unlink()
    for name, content in {
        "flows/drift.py": "old = 1\n",
        "tasks/gone.py": "gone = 1\n",
        "tasks/gone_but_mine.py": "gone = 2\n",
        "params.yaml": "old: 1\n",
    }.items():
        (root / name).write_text(content)
        files[name] = template_hash(content)
    TemplateRecord("0.0.1", files).write(root)


def template_hash(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def test_an_update_rewrites_what_is_unchanged_and_shows_the_rest(project: Path, run: Run) -> None:
    make_older(project)
    (project / "params.yaml").write_text("old: 1\nmine: 2\n")  # changed by the user, and by epigram
    (project / "prefect.yaml").write_text("mine: 3\n")  # changed by the user only
    (project / "tasks/gone_but_mine.py").write_text("mine = 4\n")  # changed by the user, and gone from epigram
    (project / "data/sources/mr.yaml").unlink()  # deleted by the user
    code, out, err = run("init", "--update", project)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == ["updated: flows/drift.py", "updated: flows/sweep.py", "deleted: tasks/gone.py"]
    assert lines[3] == "kept: params.yaml, because you have changed it; the new version differs:"
    assert {"-mine: 2", "+dataset: pocket_zh          # name of a file in data/sources, without .yaml"} <= set(lines)
    assert lines[-1].startswith(f"the project is for epigram {epigram.__version__}, before: 0.0.1")
    assert (project / "params.yaml").read_text() == "old: 1\nmine: 2\n"
    assert (project / "prefect.yaml").read_text() == "mine: 3\n"
    assert (project / "tasks/gone_but_mine.py").read_text() == "mine = 4\n"
    assert not (project / "data/sources/mr.yaml").exists() and not (project / "tasks/gone.py").exists()
    for name in ("flows/drift.py", "flows/sweep.py"):
        assert (project / name).read_bytes() == (ROOT / name).read_bytes()
    again = update(project)
    assert (again.version, again.written, again.deleted, again.diffs) == (epigram.__version__, [], [], {})


def test_a_folder_without_a_project_cannot_be_updated(tmp_path: Path) -> None:
    with pytest.raises(
        InputMissingError, match=r"epigram.yaml does not exist; run --update in the folder of a project"
    ):
        update(tmp_path)


@pytest.mark.parametrize("content", ["", "version: 1\nfiles: {}\n", "version: 0.1.0\nfiles: [a]\n", "- 1\n"])
def test_a_wrong_record_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "epigram.yaml").write_text(content)
    with pytest.raises(ParameterError, match=r"expected a text `version` and a mapping `files`"):
        check_version(tmp_path)


@pytest.mark.parametrize("name", ["../precious", "data/../../precious", "{folder}/precious", "."])
def test_an_update_deletes_nothing_outside_of_the_project(name: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("rows")
    (tmp_path / "project").mkdir()
    files = {name.format(folder=tmp_path): hashlib.sha256(b"rows").hexdigest()}
    TemplateRecord("0.0.1", files).write(tmp_path / "project")
    with pytest.raises(ParameterError, match="is no path below the project"):
        update(tmp_path / "project")
    assert precious.read_text() == "rows"


def test_a_run_of_a_project_for_another_version_is_refused(project: Path) -> None:
    request = Request(root=project)
    overrides.check(request)
    TemplateRecord("0.0.1", {}).write(project)
    expected = rf"for epigram 0\.0\.1, but epigram {epigram.__version__} is installed; run `epigram init --update`"
    with pytest.raises(ParameterError, match=expected):
        overrides.check(request)
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qam", "old"], cwd=project, check=True
    )
    for each in (request, Request(root=project, revision="HEAD")):
        with pytest.raises(ParameterError, match=expected), open_workspace(each):
            pass


def test_the_repository_itself_has_no_version_to_check() -> None:
    check_version(ROOT)
