"""Tests of git failures, which are reported with their cause."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from epigram.core.errors import InputMissingError, ParameterError
from epigram.process.exits import exit_code, message
from epigram.runner import git

INDEX = "fatal: sha1 file 'x/index.lock' write error. Out of diskspace"
OBJECT = "error: unable to write file: No space left on device\nfatal: unable to write loose object file"
UNKNOWN = "fatal: bad revision 'x'"
LOCKED = "fatal: cannot lock ref 'refs/heads/x': Unable to create 'x.lock': File exists."


def failure(folder: Path, said: str, monkeypatch: pytest.MonkeyPatch) -> Exception:
    """Return the error of `git` when git prints `said`."""
    (folder / "said").write_text(said)
    (folder / "git").write_text(f"#!/bin/sh\ncat '{folder}/said' >&2\nexit 128\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises((OSError, InputMissingError)) as raised:
        git.git(folder, "write-tree")
    return raised.value


@pytest.mark.parametrize("said", [INDEX, OBJECT])
def test_a_full_disk_is_named(tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure(tmp_path, said, monkeypatch)
    assert exit_code(error) == 74
    assert message(error) == f"No space left on device: {tmp_path}: free disk space and rerun"


def test_other_failures_are_told_in_gits_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure(tmp_path, UNKNOWN, monkeypatch)
    assert exit_code(error) == 66
    assert str(error) == f"git write-tree failed in {tmp_path}: {UNKNOWN}"


def test_a_lock_file_is_named_without_the_advice_that_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"{LOCKED}\n\nAnother git process seems to be running.\nremove the file manually to continue."
    assert str(failure(tmp_path, said, monkeypatch)) == f"git write-tree failed in {tmp_path}: {LOCKED}"


def test_a_read_only_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "error: unable to create temporary file: Read-only file system\nfatal: Unable to add (null) to database"
    error = failure(tmp_path, said, monkeypatch)
    assert exit_code(error) == 74
    assert message(error) == f"Read-only file system: {tmp_path}: choose a writable folder"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "fatal: not a git repository (or any of the parent directories): .git",
            "is in no git repository; run git init",
        ),
        (
            "fatal: detected dubious ownership in repository at '/srv/x'\nTo add an exception for this directory, call:"
            "\n\n\tgit config --global --add safe.directory /srv/x",
            "belongs to another user, so git does not read it; if you trust its files, run git config --global --add "
            "safe.directory ",
        ),
    ],
)
def test_a_folder_that_git_does_not_read_is_named_with_the_remedy(
    said: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failure(tmp_path, said, monkeypatch)
    assert exit_code(error) == 66
    assert str(error).startswith(f"{tmp_path} {shown}") and "\n" not in str(error)
    with pytest.raises(git.UnreadableRepositoryError):
        git.commit_of(tmp_path)


def test_messages_of_git_are_recognised_in_every_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\necho $LC_ALL\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "zh_CN.GBK")
    assert git.git(tmp_path, "status") == "C"


def test_a_folder_inside_another_repository_is_no_project(tmp_path: Path) -> None:
    project = tmp_path / "outer" / "project"
    project.mkdir(parents=True)
    with pytest.raises(InputMissingError, match="is in no git repository; run git init"):
        git.require_top_level(project)
    git.git(tmp_path / "outer", "init", "--quiet")
    git.require_top_level(tmp_path / "outer")
    with pytest.raises(ParameterError, match=rf"{project} is inside the git repository /.*; .* git init"):
        git.require_top_level(project)
    git.git(project, "init", "--quiet")
    git.require_top_level(project)


def flushes(folder: Path, *arguments: str, durable: bool) -> int:
    """Return how often git flushes its files to the disk, by its own trace."""
    trace = folder / "trace"
    trace.unlink(missing_ok=True)
    git.git(folder, *arguments, env={"GIT_TRACE2_EVENT": str(trace)}, durable=durable)
    counts = re.findall(r'hardware-flush","(?:value|count)":"?(\d+)', trace.read_text())
    return sum(map(int, counts))


def test_durable_objects_and_refs_are_flushed_to_the_disk(tmp_path: Path) -> None:
    if tuple(map(int, re.findall(r"\d+", git.git(tmp_path, "version"))[:2])) < (2, 36):
        pytest.skip("git before 2.36 does not trace it")
    git.git(tmp_path, "init", "--quiet")
    for durable in (False, True):
        (tmp_path / "file").write_text(f"{durable}")
        assert flushes(tmp_path, "hash-object", "-w", "file", durable=durable) == durable
        blob = git.git(tmp_path, "hash-object", "file")
        assert flushes(tmp_path, "update-ref", f"refs/tags/{durable}", blob, durable=durable) == durable
