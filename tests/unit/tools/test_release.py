"""The release script, on a small project: what it builds, and what it refuses before anything is built."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import release

FILES = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "toy"
version = "0.2.0"
description = "A toy"
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE", "NOTICE"]
requires-python = ">=3.11"
keywords = ["toy"]
classifiers = ["Programming Language :: Python :: 3 :: Only"]
optional-dependencies = {extra = ["numpy"]}
scripts = {toy = "toy:main"}

[tool.setuptools]
py-modules = ["toy"]
""",
    "toy.py": 'def main():\n    print("toy 0.2.0")\n',
    "README.md": "# Toy\n",
    "LICENSE": "a licence\n",
    "NOTICE": "a notice\n",
    "CHANGELOG.md": "# Changelog\n\n## 0.2.0 (2026-11-28)\n\n* A toy.\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with one commit."""
    root = tmp_path / "toy"
    root.mkdir()
    for name, content in FILES.items():
        (root / name).write_text(content)
    subprocess.run(["git", "init", "--quiet", root], check=True)
    commit(root)
    return root


def commit(root: Path) -> None:
    identity = {f"GIT_{who}_{what}": "toy" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "Change"]):
        subprocess.run(["git", "-C", root, *words], check=True, env={**os.environ, **identity})


def edited(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))
    commit(root)


def test_a_release_is_built_from_the_commit_and_nothing_is_uploaded(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "dist").mkdir()
    (project / ".gitignore").write_text("dist\n")
    commit(project)
    (project / "dist/toy-0.1.0.tar.gz").write_text("of an earlier release")
    assert release.main(project) == 0
    assert {path.name for path in (project / "dist").iterdir()} == {"toy-0.2.0.tar.gz", "toy-0.2.0-py3-none-any.whl"}
    note, first, tag, upload = capsys.readouterr().out.splitlines()
    assert "[project.urls] is empty" in note and "Nothing was uploaded" in first and tag.startswith("git tag v0.2.0 ")
    assert upload == "pipx run twine upload dist/toy-0.2.0.tar.gz dist/toy-0.2.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: (root / "toy.py").write_text(""), "not committed"),
        (lambda root: edited(root, "CHANGELOG.md", "0.2.0 (2026-11-28)", "Unreleased"), "begins with 'Unreleased'"),
        (lambda root: edited(root, "CHANGELOG.md", "0.2.0", "0.1.9"), "begins with '0.1.9 (2026-11-28)'"),
        (lambda root: subprocess.run(["git", "-C", root, "tag", "v0.2.0"], check=True), "the tag v0.2.0 exists"),
        (lambda root: edited(root, "pyproject.toml", 'keywords = ["toy"]\n', ""), "lacks keywords"),
        (lambda root: edited(root, "pyproject.toml", ', "NOTICE"]', "]"), "lacks LICENSE and NOTICE"),
        (lambda root: edited(root, "pyproject.toml", 'readme = "README.md"\n', ""), "lacks README.md as its descr"),
        (lambda root: edited(root, "toy.py", "0.2.0", "0.1.0"), "`--version` printed 'toy 0.1.0'"),
    ],
)
def test_what_is_missing_is_named_and_no_file_is_left(
    spoil: Callable[[Path], object], said: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(project)
    assert release.main(project) == 1
    assert said in capsys.readouterr().err
    assert not (project / "dist").exists()


def test_another_version_of_a_build_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert release.build_problems() == []
    monkeypatch.setattr(release, "pins_of", lambda name: ["setuptools==1.0", "not-installed==2.0"])
    assert [problem.partition(",")[0] for problem in release.build_problems()] == [
        "setuptools==1.0 is locked",
        "not-installed==2.0 is locked",
    ]
