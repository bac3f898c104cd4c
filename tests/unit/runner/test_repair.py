"""Tests that `make repair` deletes only files of the repository, whatever paths dvc.lock names."""

from __future__ import annotations

import json
from hashlib import md5
from pathlib import Path

import pytest

from epigram.runner.dvc import adapter, repair

LOCK = "schema: '2.0'\nstages:\n  raw:\n    cmd: x\n    outs:\n    - {path: %s, hash: md5, md5: '%s'}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one damaged file in its cache; the folder next to it must not be touched."""
    cache = tmp_path / "repo" / "cache"
    (cache / "00").mkdir(parents=True)
    (cache / "00" / ("0" * 30)).write_text("not what its name says")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "diary.txt").write_text("dear")
    (tmp_path / "repo" / "linked").symlink_to(tmp_path / "beside")
    monkeypatch.setattr(adapter, "cache_folder", lambda _: cache)
    return tmp_path / "repo"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/raw", "..{beside}/diary.txt"),  # without its first two characters, the name is an absolute path
        ("../beside", "0" * 32),
        ("{beside}", "0" * 32),
        ("linked/diary.txt", "0" * 32),
    ],
)
def test_a_lock_file_with_other_paths_removes_nothing_outside(root: Path, path: str, name: str) -> None:
    beside = root.parent / "beside"
    (root / "dvc.lock").write_text(LOCK % (path.format(beside=beside), name.format(beside=beside)))
    repair.remove_damaged_outputs(root, ["raw"])
    assert (beside / "diary.txt").read_text() == "dear"


def test_a_list_of_a_folder_with_other_paths_removes_nothing_outside(root: Path) -> None:
    listed = json.dumps([{"md5": f"..{root.parent}/beside/diary.txt", "relpath": "a"}]).encode()
    name = md5(listed, usedforsecurity=False).hexdigest()
    (root / "cache" / name[:2]).mkdir(exist_ok=True)
    (root / "cache" / name[:2] / f"{name[2:]}.dir").write_bytes(listed)
    (root / "dvc.lock").write_text(LOCK % ("data/raw", f"{name}.dir"))
    assert repair.remove_damaged_outputs(root, ["raw"]) == []
    assert (root.parent / "beside" / "diary.txt").read_text() == "dear"


def test_a_damaged_output_of_the_repository_is_removed(root: Path) -> None:
    (root / "data" / "raw").mkdir(parents=True)
    (root / "dvc.lock").write_text(LOCK % ("data/raw", "0" * 32))
    assert repair.remove_damaged_outputs(root, ["raw"]) == ["data/raw"]
    assert not (root / "data" / "raw").exists() and not (root / "cache" / "00" / ("0" * 30)).exists()
