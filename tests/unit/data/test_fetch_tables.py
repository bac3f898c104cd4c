"""Tests of sources that are queried: the Hugging Face hub and databases."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

from epigram.core.errors import DataError, EpigramError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import File
from epigram.data.sources.sql_and_hub import write_table

pytest.importorskip("adbc_driver_sqlite", reason="requires the extra sql")

ALL = "SELECT body, stars FROM reviews ORDER BY id"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect(tmp_path / "reviews.db") as connection:
        connection.execute("CREATE TABLE reviews (id INTEGER, body TEXT, stars INTEGER)")
        connection.executemany("INSERT INTO reviews VALUES (?, ?, ?)", [(2, "bad", 1), (1, "很好", 5)])
    connection.close()
    return "sqlite:///reviews.db"


def fetch(url: str, query: str | None, folder: Path) -> Path:
    file = File(path="reviews.parquet", url=url, query=query)
    Fetcher(folder / "arrivals", DownloadSettings(tries=1, timeout=20.0)).fetch(file, folder / "raw")
    return folder / "raw/reviews.parquet"


def test_a_query_becomes_a_parquet_file(database: str, tmp_path: Path) -> None:
    path = fetch(database, ALL, tmp_path)
    assert pl.read_parquet(path).rows() == [("很好", 5), ("bad", 1)]
    first = path.read_bytes()
    assert fetch(database, ALL, tmp_path).read_bytes() == first


def test_the_address_may_stand_in_the_environment(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPIGRAM_SOURCE_VARIABLES", "REVIEWS,FOLDER")
    with pytest.raises(ParameterError, match="variable REVIEWS is not set"):
        fetch("${REVIEWS}", ALL, tmp_path)
    monkeypatch.setenv("REVIEWS", database)
    assert pl.read_parquet(fetch("${REVIEWS}", ALL, tmp_path)).height == 2
    monkeypatch.setenv("FOLDER", str(tmp_path))
    assert pl.read_parquet(fetch("sqlite:///${FOLDER}/reviews.db", ALL, tmp_path)).height == 2


def test_faults_of_a_database(database: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"invalid query: .*no such table: nowhere"):
        fetch(database, "SELECT * FROM nowhere", tmp_path)
    with pytest.raises(DataError, match="has no rows"):
        fetch(database, "SELECT * FROM reviews WHERE id > 9", tmp_path)
    with pytest.raises(InputMissingError, match="the SQLite file is missing"):
        fetch("sqlite:///other.db", ALL, tmp_path)
    assert not (tmp_path / "other.db").exists()


def test_an_error_while_a_query_runs_is_final(database: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, " * 99)
    for address, query in (
        (database, "SELECT abs(-9223372036854775808) FROM reviews"),
        (database, "SELECT json('{') FROM reviews"),
        ("sqlite:///text.db", ALL),
    ):
        with pytest.raises((DataError, ParameterError), match=r"the query fails|invalid query") as caught:
            fetch(address, query, tmp_path)
        assert "try again" not in str(caught.value) and "\n" not in str(caught.value)


class OperationalError(Exception):
    """Error with the name and the attribute of the driver's class."""

    def __init__(self, text: str, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class InternalError(OperationalError):
    """Another class of the driver."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OperationalError("IO: [libpq] Failed to connect: connection refused"), 69),
        (OperationalError('IO: [libpq] Failed to connect: could not translate host name "db" to address'), 69),
        (OperationalError("IO: [libpq] server closed the connection unexpectedly"), 69),
        (OperationalError("IO: [libpq] FATAL: the database system is starting up"), 69),
        (OperationalError("IO: [libpq] FATAL: sorry, too many clients already"), 69),
        (OperationalError("IO: [libpq] terminating connection", "57P01"), 69),
        (OperationalError("IO: [libpq] could not serialize access", "40001"), 69),
        (OperationalError('IO: [libpq] FATAL: password authentication failed for user "me"'), 64),
        (OperationalError('IO: [libpq] FATAL: database "x" does not exist'), 64),
        (OperationalError('IO: [libpq] invalid port number: "x"'), 64),
        (OperationalError("IO: [libpq] Failed to execute query: division by zero", "22012"), 65),
        (InternalError("INTERNAL: unsupported type"), 65),
        (OSError("[SQLite] Type mismatch in column 0: expected INT64 but got STRING"), 65),
    ],
)
def test_only_a_failed_connection_is_tried_again(error: Exception, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(pl, "read_database_uri", fail)
    with pytest.raises(EpigramError) as caught:
        write_table("postgresql://me:hunter2@db/x", "SELECT 1", Path("unused"))
    assert caught.value.code == code
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("IO: database is locked", SourceUnavailableError), ("IO: database disk image is malformed", DataError)],
)
def test_of_a_file_only_a_lock_is_tried_again(
    text: str, kind: type[EpigramError], database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError(text)

    monkeypatch.setattr(pl, "read_database_uri", fail)
    with pytest.raises(kind):
        fetch(database, ALL, tmp_path)


def test_no_message_shows_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2")
    monkeypatch.setenv("EPIGRAM_SOURCE_VARIABLES", "PASSWORD")
    for url in ("postgresql://me:hunter2@127.0.0.1:1/db", "postgresql://me:${PASSWORD}@127.0.0.1:1/db"):
        with pytest.raises(SourceUnavailableError, match=r"127\.0\.0\.1") as caught:
            fetch(url, "SELECT 1", tmp_path)
        assert "hunter2" not in str(caught.value)


def test_the_hub_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with pytest.raises(SourceUnavailableError, match=r"hf://datasets/nobody/nothing@1/train\.parquet cannot be read"):
        fetch("hf://datasets/nobody/nothing@1/train.parquet", None, tmp_path)
    with pytest.raises(ParameterError, match="unsupported file type"):
        fetch("hf://datasets/nobody/nothing", None, tmp_path)


def test_a_query_that_writes_is_refused_and_changes_nothing(database: str, tmp_path: Path) -> None:
    before = (tmp_path / "reviews.db").read_bytes()
    for query in (
        "ATTACH DATABASE 'other.db' AS o",
        "-- SELECT\nDROP TABLE reviews",
        "/* WITH */ VACUUM INTO 'other.db'",
    ):
        with pytest.raises(ParameterError, match="the query must start with SELECT, WITH, VALUES or TABLE"):
            fetch(database, query, tmp_path)
    with pytest.raises(DataError, match=r"the query fails: .*readonly database"):
        fetch(database, "WITH n AS (SELECT 9) INSERT INTO reviews SELECT 9, 'x', 1 RETURNING *", tmp_path)
    assert (tmp_path / "reviews.db").read_bytes() == before
    assert not (tmp_path / "other.db").exists()


def test_a_query_may_begin_with_comments_and_a_file_have_any_name(database: str, tmp_path: Path) -> None:
    (tmp_path / "reviews.db").rename(tmp_path / "a?mode=rwc#%41.db")
    path = fetch(
        "sqlite:///a%3Fmode=rwc%23%2541.db", f"-- all\n/* of\nthem */ with r as ({ALL}) select * from r", tmp_path
    )
    assert pl.read_parquet(path).height == 2
