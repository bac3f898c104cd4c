"""Tests of the empty database of a server, which is made once for all new projects."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from epigram.runner import child_process
from epigram.runner.service import new_database, server


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/epigram"


def write(path: Path, table: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute("pragma journal_mode = wal")  # as Prefect's
        database.execute(f"create table {table} (number)")
    database.close()


def tables(path: Path) -> list[str]:
    database = sqlite3.connect(path)
    found = [name for (name,) in database.execute("select name from sqlite_master")]
    database.close()
    return found


def test_a_new_project_has_the_database_that_the_first_server_has_created(cache: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert new_database.create(first), "there is none, so the server creates one"
    write(first / "prefect.db", "flow")
    new_database.keep(first)
    assert not new_database.create(second)
    assert [file.name for file in second.iterdir()] == ["prefect.db"]
    assert list(cache.iterdir()) == [new_database.template()]
    assert tables(second / "prefect.db") == ["flow"]
    assert new_database.template().parent == cache and cache.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("left", ["prefect.db", "prefect.db-wal"])
def test_a_database_of_a_project_is_not_replaced(left: str, cache: Path, tmp_path: Path) -> None:
    write(tmp_path / "first/prefect.db", "empty")
    new_database.keep(tmp_path / "first")
    write(tmp_path / "second" / left, "own")
    before = (tmp_path / "second" / left).read_bytes()
    assert not new_database.create(tmp_path / "second"), "its runs are not copied to other projects"
    assert [(file.name, file.read_bytes()) for file in (tmp_path / "second").iterdir()] == [(left, before)]


def test_the_first_database_that_was_kept_stays(cache: Path, tmp_path: Path) -> None:
    write(tmp_path / "first/prefect.db", "first")
    write(tmp_path / "second/prefect.db", "second")
    for name in ("first", "second"):
        new_database.keep(tmp_path / name)
    assert tables(new_database.template()) == ["first"]
    assert len(list(cache.iterdir())) == 1


def test_a_damaged_or_unwritable_copy_is_left_to_the_server(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    new_database.template().write_bytes(b"SQLite format 3\0" + b"damage" * 999)
    new_database.create(tmp_path / "project")
    assert list((tmp_path / "project").iterdir()) == []
    new_database.keep(tmp_path / "project")  # a server that has another database has written none here
    assert new_database.template().read_bytes().endswith(b"damage")


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_user_without_a_cache_has_a_server_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "project/prefect.db", "flow")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    new_database.keep(tmp_path / "project")
    assert new_database.create(tmp_path / "second")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    new_database.keep(tmp_path / "project")
    assert not new_database.create(tmp_path / "third")


def test_the_first_server_leaves_a_copy_and_the_next_one_starts_with_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []

    def launch(*_: object) -> subprocess.Popen[str]:
        file = server.home() / "prefect.db"
        found.append(file.exists())
        if not found[-1]:
            write(file, "flow")
        return child_process.start(["sleep", "60"])

    monkeypatch.setattr(server, "_launch", launch)
    monkeypatch.setattr(server, "running", lambda: None)
    monkeypatch.setattr(server, "is_healthy", lambda _: True)
    for name in ("first", "second"):
        monkeypatch.setenv("PREFECT_HOME", str(tmp_path / name))
        monkeypatch.setenv(server.API_URL, "http://127.0.0.1:9/api")
        started = server.start()
        assert new_database.template().exists() is (name == "second"), "nothing is kept before the server responds"
        started.wait()
        started.stop()
        assert tables(new_database.template()) == ["flow"]
    assert found == [False, True]
