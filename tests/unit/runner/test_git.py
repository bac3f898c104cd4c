"""Tests of git failures: a full disk is recognised, whatever git reports."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from epigram.core.errors import InputMissingError
from epigram.process.exits import exit_code, message
from epigram.runner import git

INDEX = "fatal: sha1 file 'x/index.lock' write error. Out of diskspace"
OBJECT = "error: unable to write file: No space left on device\nfatal: unable to write loose object file"
REF = "fatal: cannot update ref 'refs/tags/x': couldn't write '.git/refs/tags/x.lock'"
UNKNOWN = "fatal: bad revision 'x'"
PLENTY, NOTHING = 1 << 30, 4096


def failure(folder: Path, said: str, monkeypatch: pytest.MonkeyPatch, **free: int) -> Exception:
    """Return the error of `git` when git prints `said`; `free` bytes are left in its folder and in TMPDIR."""
    (folder / "said").write_text(said)
    (folder / "git").write_text(f"#!/bin/sh\ncat '{folder}/said' >&2\nexit 128\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    place = {folder: free.get("here", PLENTY)}
    monkeypatch.setattr(
        git.shutil, "disk_usage", lambda path: SimpleNamespace(free=place.get(path, free.get("temporary", PLENTY)))
    )
    with pytest.raises((OSError, InputMissingError)) as raised:
        git.git(folder, "write-tree")
    return raised.value


@pytest.mark.parametrize(
    ("said", "free"),
    [(INDEX, {"temporary": NOTHING}), (INDEX, {"here": NOTHING}), (REF, {"here": NOTHING}), (OBJECT, {})],
)
def test_a_full_disk_is_named(tmp_path: Path, said: str, free: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure(tmp_path, said, monkeypatch, **free)
    assert exit_code(error) == 74
    assert message(error) == f"No space left on device: {tmp_path}: free disk space and rerun"


@pytest.mark.parametrize(("said", "free"), [(REF, {}), (UNKNOWN, {"here": NOTHING})])
def test_other_failures_are_told_in_gits_words(
    tmp_path: Path, said: str, free: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failure(tmp_path, said, monkeypatch, **free)
    assert exit_code(error) == 66
    assert str(error) == f"git write-tree failed in {tmp_path}: {said}"


def test_a_read_only_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "error: unable to create temporary file: Read-only file system\nfatal: Unable to add (null) to database"
    error = failure(tmp_path, said, monkeypatch)
    assert exit_code(error) == 74
    assert message(error) == f"Read-only file system: {tmp_path}: choose a writable folder"


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
