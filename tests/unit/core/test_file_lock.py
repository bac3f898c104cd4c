"""Files: a lock with one holder, folders that are replaced as a whole, and records with refused content."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from epigram.core import files
from epigram.core.errors import DataError, InputMissingError, TryAgainError
from epigram.core.files import atomic_folder, exclusive_lock, write_json
from epigram.core.records import read_record

HOLD = """
import sys
from pathlib import Path
from epigram.core.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), str):
    print("held", flush=True)
    sys.stdin.read()
"""


def busy(process: str) -> str:
    return f"held by {process}"


def test_others_are_told_the_process_until_the_holder_releases_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "a.lock"
    with exclusive_lock(lock, busy):
        for _ in range(2):  # the first contender leaves the process id in the file
            with pytest.raises(TryAgainError, match=f"^held by {os.getpid()}$"), exclusive_lock(lock, busy):
                pass
    with exclusive_lock(lock, busy):
        pass


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(TryAgainError, match=f"^held by {other.pid}$"), exclusive_lock(lock, busy):
            pass
        other.kill()
        other.wait()
        with exclusive_lock(lock, busy):
            assert lock.read_text() == str(os.getpid())


def test_an_error_of_the_block_is_raised_and_releases_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    with pytest.raises(KeyError), exclusive_lock(lock, busy):
        raise KeyError
    with exclusive_lock(lock, busy):
        pass


ROUNDS = 200
TWO_RENAMES = pytest.param(lambda new, path, flags: False, id="two renames")
EXCHANGE = pytest.param(files._renameat2, id="exchange")

Exchange = Callable[[Path, Path, int], bool]


def write(path: Path, text: str) -> None:
    with atomic_folder(path) as folder:
        for name in "abcdef":
            (folder / name).write_text(text)


def contents(folder: Path) -> list[str]:
    """Return the content of each file in `folder` and in the folders next to it, hidden folders included."""
    return sorted(f"{path.parent.name}/{path.name}={path.read_text()}" for path in folder.parent.rglob("*/*"))


@pytest.mark.skipif(sys.platform != "linux", reason="requires renameat2 of Linux")
def test_a_reader_always_finds_a_whole_folder(tmp_path: Path) -> None:
    path, stop, missing = tmp_path / "model", threading.Event(), []
    write(path, "0")

    def read() -> None:
        while not stop.is_set():
            try:
                (path / "f").read_text()
            except FileNotFoundError as error:
                missing.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(ROUNDS):
            write(path, str(number))
    finally:
        stop.set()
        reader.join()
    assert missing == []
    assert contents(path) == [f"model/{name}={ROUNDS - 1}" for name in "abcdef"]


@pytest.mark.parametrize("exchange", [EXCHANGE, TWO_RENAMES])
def test_the_new_folder_replaces_the_old_one_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: Exchange
) -> None:
    monkeypatch.setattr(files, "_renameat2", exchange)
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").write_text("old")
    write(path, "new")
    assert contents(path) == [f"model/{name}=new" for name in "abcdef"]
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("exchange", [EXCHANGE, TWO_RENAMES])
def test_a_link_is_replaced_and_what_it_points_to_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: Exchange
) -> None:
    monkeypatch.setattr(files, "_renameat2", exchange)
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "model"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    path.symlink_to(elsewhere)
    write(path, "new")
    assert not path.is_symlink()
    assert (elsewhere / "precious").read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "model"]


def test_a_failure_leaves_the_old_folder(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path, "old")
    with pytest.raises(ValueError, match="stopped"), atomic_folder(path) as folder:
        (folder / "a").write_text("new")
        raise ValueError("stopped")
    assert contents(path) == [f"model/{name}=old" for name in "abcdef"]
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_a_second_writer_of_a_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with atomic_folder(path) as folder:
        (folder / "a").write_text("first")
        with pytest.raises(TryAgainError, match=r"another process is writing .*model"), atomic_folder(path):
            pytest.fail("two writers of one folder")
        assert (folder / "a").read_text() == "first"
    assert contents(path) == ["model/a=first"]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".model.0123abcd"
    left.mkdir()
    (left / "a").write_text("half")
    write(tmp_path / "model", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_a_disk_error_in_the_exchange_is_raised(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        files._renameat2(tmp_path / "none", tmp_path / "neither", files.RENAME_EXCHANGE)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_weights_and_arrays_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        files.write_tensors(tmp_path / "model.safetensors", {"weight": torch.zeros(2)})
        files.write_arrays(tmp_path / "arrays.safetensors", {"ids": np.zeros(2)})
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_rename_to_a_name_that_is_taken_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    if not in_one_step:
        monkeypatch.setattr(files, "_renameat2", lambda *_: False)
    new, taken, link, free = (tmp_path / name for name in ("new", "taken", "link", "free"))
    new.write_text("new")
    taken.write_text("old")
    link.symlink_to("nowhere")
    assert not files.rename_no_replace(new, taken) and not files.rename_no_replace(new, link)
    assert (new.read_text(), taken.read_text(), link.is_symlink()) == ("new", "old", True)
    assert files.rename_no_replace(new, free)
    assert (free.read_text(), new.exists()) == ("new", False)
    with pytest.raises(FileNotFoundError):
        files.rename_no_replace(new, tmp_path / "other")


@dataclass(frozen=True)
class Point:
    depth: int


@dataclass(frozen=True)
class Record:
    points: list[Point]


def test_a_record_is_read_with_its_nested_records(tmp_path: Path) -> None:
    write_json(tmp_path / "r.json", {"points": [{"depth": 2}]})
    assert read_record(Record, tmp_path / "r.json") == Record([Point(2)])


def test_the_field_with_a_wrong_value_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "r.json", {"points": [{"depth": 2}, {"depth": "deep"}]})
    with pytest.raises(DataError, match=r"r\.json does not have the format .* \(at points\.1\.depth\); run dvc repro"):
        read_record(Record, tmp_path / "r.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"r\.json is missing"):
        read_record(Record, tmp_path / "r.json")
