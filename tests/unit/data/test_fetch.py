"""Tests of downloads from a failing server: a whole, verified file, or a clear error and no partial file."""

from __future__ import annotations

import gzip
import hashlib
import io
import socket
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.data.sources.access import redact_address
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import Archive, File, Source
from tests.support.file_server import Server, serving

CONTENT = bytes(range(256)) * 400
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EPIGRAM_MIRROR", raising=False)


def fetcher(folder: Path, *, tries: int = 3, timeout: float = 5.0) -> Fetcher:
    return Fetcher(folder / "arrivals", DownloadSettings(tries=tries, timeout=timeout, min_rate=0), pause=0.01)


def one(server: Server, **changes: Any) -> File:
    return File(**{"path": "train.csv", "url": server.address("train.csv"), "sha256": DIGEST} | changes)


def left(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("trouble", ["500", "503", "429", "cut", "reset", "hang"])
def test_a_stumbling_server_is_asked_again(server: Server, tmp_path: Path, trouble: str) -> None:
    server.files["train.csv"] = CONTENT
    server.troubles["train.csv"] = [trouble]
    fetching = fetcher(tmp_path, timeout=2.0)
    assert fetching.fetch(one(server), tmp_path / "raw") == server.address("train.csv")
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT
    assert len(server.asked) == 2
    fetching.clear()
    assert left(tmp_path) == ["raw/train.csv"]


def test_what_was_fetched_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    server.files["train.csv"] = CONTENT
    server.troubles["train.csv"] = ["cut", "500", "500"]
    with pytest.raises(SourceUnavailableError):
        fetcher(tmp_path, tries=2).fetch(one(server), tmp_path / "raw")
    server.troubles.clear()
    fetcher(tmp_path).fetch(one(server), tmp_path / "raw")  # a later run
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT
    assert server.asked[-1][1] == f"bytes={len(CONTENT) // 2}-"


def test_a_server_without_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    server.files["train.csv"] = CONTENT
    server.troubles["train.csv"] = ["cut", "no range"]
    fetcher(tmp_path).fetch(one(server), tmp_path / "raw")
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT


def test_a_file_that_changed_between_two_runs_is_fetched_whole(server: Server, tmp_path: Path) -> None:
    server.files["train.csv"] = b"x" * (2 * len(CONTENT))
    server.troubles["train.csv"] = ["cut"]
    with pytest.raises(SourceUnavailableError):
        fetcher(tmp_path, tries=1).fetch(one(server), tmp_path / "raw")
    for shorter in (CONTENT, CONTENT + b"!"):
        server.files["train.csv"] = shorter
        fetcher(tmp_path).fetch(one(server, sha256=hashlib.sha256(shorter).hexdigest()), tmp_path / "raw")
        assert (tmp_path / "raw/train.csv").read_bytes() == shorter


def test_a_file_that_changes_between_two_tries_is_fetched_whole(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["train.csv"], server.troubles["train.csv"] = CONTENT[::-1], ["cut"]
    monkeypatch.setattr("time.sleep", lambda seconds: server.files.update({"train.csv": CONTENT}))
    fetcher(tmp_path).fetch(one(server), tmp_path / "raw")
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT
    assert [place for _, place in server.asked] == [None, f"bytes={len(CONTENT) // 2}-", None]


def test_a_file_without_a_checksum_is_of_one_version(server: Server, tmp_path: Path) -> None:
    file = one(server, sha256=None)
    server.files["train.csv"], server.troubles["train.csv"] = CONTENT, ["cut"]
    with pytest.raises(SourceUnavailableError):
        fetcher(tmp_path, tries=1).fetch(file, tmp_path / "raw")
    server.files["train.csv"] = CONTENT[::-1]
    fetcher(tmp_path).fetch(file, tmp_path / "raw")
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    ("hashed", "counted", "told"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_a_file_of_unknown_length_needs_a_checksum_or_a_number_of_rows(
    hashed: bool, counted: bool, told: bool, server: Server, tmp_path: Path
) -> None:
    """The connection breaks after half of the file, which then looks like all of it.

    The checksum of the mirror's file says nothing about the file of another address.
    """
    server.files["train.csv"], server.troubles["train.csv"] = CONTENT, ["cut, no length"]
    file = one(server, sha256=DIGEST if hashed else None, mirror="train.csv.gz", mirror_sha256="0" * 64)
    fetching = replace(fetcher(tmp_path, tries=1), counted=counted)
    if told:
        with pytest.raises(DataError, match=r"is sent without its length.*; set sha256 of the file, or rows"):
            fetching.fetch(file, tmp_path / "raw")
        assert not (tmp_path / "raw/train.csv").exists()
    elif hashed:
        with pytest.raises(DataError, match="has the checksum"):
            fetching.fetch(file, tmp_path / "raw")
    else:
        fetching.fetch(file, tmp_path / "raw")  # the validation compares the number of rows
        assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT[: len(CONTENT) // 2]


@pytest.mark.parametrize(
    ("rows", "splits", "counted"),
    [
        ({}, {}, False),
        ({}, {"train": ["a"]}, False),
        ({"all": 3}, {}, True),
        ({"test": 3}, {}, False),
        ({"test": 3}, {"train": ["a"], "test": ["b"]}, False),
        ({"train": 3, "test": 3}, {"train": ["a"], "test": ["b"]}, True),
    ],
)
def test_a_source_is_counted_if_no_row_could_be_lost(rows: Any, splits: Any, counted: bool) -> None:
    source = Source(name="x", about="", language="en", task="single", licence="", files=[], rows=rows, splits=splits)
    assert source.counted is counted


def test_the_declared_size_is_the_limit(server: Server, tmp_path: Path) -> None:
    server.files["train.csv"] = CONTENT
    with pytest.raises(DataError, match="larger than 102,399 bytes"):
        fetcher(tmp_path).fetch(one(server, max_bytes=len(CONTENT) - 1), tmp_path / "raw")
    fetcher(tmp_path).fetch(one(server, max_bytes=len(CONTENT)), tmp_path / "raw")
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("trouble", ["500", "cut", "reset", "hang"])
def test_a_server_that_never_recovers_is_named(server: Server, tmp_path: Path, trouble: str) -> None:
    server.files["train.csv"] = CONTENT
    server.troubles["train.csv"] = [trouble] * 9
    with pytest.raises(SourceUnavailableError) as caught:
        fetcher(tmp_path, tries=2, timeout=0.2).fetch(one(server), tmp_path / "raw")
    first = str(caught.value).splitlines()[0]
    assert server.address("train.csv") in first
    assert "2 tries" in first
    assert caught.value.code == 69
    assert not (tmp_path / "raw/train.csv").exists()


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://user:secret@127.0.0.1:{free.getsockname()[1]}/train.csv?token=secret"
    with pytest.raises(SourceUnavailableError, match="cannot be downloaded") as caught:
        fetcher(tmp_path, tries=2).fetch(File(path="train.csv", url=address), tmp_path / "raw")
    assert "secret" not in str(caught.value)
    assert "secret" not in redact_address(address)


def test_a_file_that_is_not_there_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"train\.csv does not exist \(HTTP status 404\)"):
        fetcher(tmp_path).fetch(one(server), tmp_path / "raw")
    assert len(server.asked) == 1


def test_the_next_address_is_tried(server: Server, tmp_path: Path) -> None:
    server.files["copy.csv"] = CONTENT
    file = one(server, url=[server.address("train.csv"), server.address("copy.csv")])
    assert fetcher(tmp_path).fetch(file, tmp_path / "raw") == server.address("copy.csv")
    server.troubles["copy.csv"] = ["500"] * 3
    with pytest.raises(SourceUnavailableError, match=r"copy\.csv") as caught:
        fetcher(tmp_path / "again").fetch(file, tmp_path / "raw")
    assert "also tried" in str(caught.value)


def test_a_wrong_checksum_says_which_file_and_both_digests(server: Server, tmp_path: Path) -> None:
    server.files["train.csv"] = b"something else"
    with pytest.raises(DataError) as caught:
        fetcher(tmp_path).fetch(one(server), tmp_path / "raw")
    words = str(caught.value)
    assert words.startswith("train.csv from http://127.0.0.1")
    assert DIGEST[:12] in words
    assert hashlib.sha256(b"something else").hexdigest()[:12] in words
    server.files["train.csv"] = CONTENT  # the wrong bytes were not kept
    fetcher(tmp_path).fetch(one(server), tmp_path / "raw")


def test_the_mirror_comes_first(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(CONTENT)
    digest = hashlib.sha256(packed).hexdigest()
    mirror = tmp_path / "mirror/set/train.csv.gz"
    mirror.parent.mkdir(parents=True)
    mirror.write_bytes(packed)
    monkeypatch.setenv("EPIGRAM_MIRROR", str(tmp_path / "mirror"))
    file = one(server, mirror="set/train.csv.gz", mirror_sha256=digest)
    assert fetcher(tmp_path).fetch(file, tmp_path / "raw") == str(mirror)
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT
    assert server.asked == []
    mirror.write_bytes(packed + b"!")
    with pytest.raises(DataError, match=r"train\.csv from .*mirror/set/train\.csv\.gz has the checksum"):
        fetcher(tmp_path).fetch(file, tmp_path / "raw")
    mirror.unlink()
    server.files["train.csv"] = CONTENT
    assert fetcher(tmp_path).fetch(file, tmp_path / "raw") == server.address("train.csv")


def test_the_mirror_may_be_an_address(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["data/set/train.csv.gz"] = gzip.compress(CONTENT)
    monkeypatch.setenv("EPIGRAM_MIRROR", server.address("data/"))
    fetcher(tmp_path).fetch(one(server, mirror="set/train.csv.gz"), tmp_path / "raw")
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["data/set/train.csv.gz"]


def test_a_mirror_that_is_no_folder_is_said(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPIGRAM_MIRROR", str(tmp_path / "nowhere"))
    with pytest.raises(ParameterError, match="EPIGRAM_MIRROR is"):
        fetcher(tmp_path).fetch(one(server, mirror="train.csv"), tmp_path / "raw")


def test_a_file_that_only_a_mirror_has(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="has no download address; set EPIGRAM_MIRROR"):
        fetcher(tmp_path).fetch(File(path="rows.json", mirror="set/rows.json"), tmp_path / "raw")


def test_archives_are_taken_apart_on_arrival(server: Server, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("repo-1/posts/b.json", "repo-1/posts/a.json"):
            item = tarfile.TarInfo(name)
            item.size = 2
            tar.addfile(item, io.BytesIO(b"{}"))
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("deep/train.csv", CONTENT)
    server.files |= {"owner/repo/tar.gz/1": packed.getvalue(), "archive.zip": zipped.getvalue()}
    tarball = server.address("owner/repo/tar.gz/1")
    fetching = fetcher(tmp_path)
    for file in (
        File(path="names.txt", url=tarball, archive=Archive(members=["posts/*.json"], to="names")),
        File(path="posts.tar", url=tarball, archive=Archive(members=["posts/*.json"])),
        one(server, url=server.address("archive.zip"), archive=Archive(members=["train.csv"], to="file")),
    ):
        fetching.fetch(file, tmp_path / "raw")
    assert (tmp_path / "raw/names.txt").read_text() == "a.json\nb.json\n"
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT
    with tarfile.open(tmp_path / "raw/posts.tar") as tar:
        assert tar.getnames() == ["posts/a.json", "posts/b.json"]
    assert len(server.asked) == 2  # the second file of the same address reuses the transfer
    fetching.clear()
    assert left(tmp_path / "arrivals") == []


def test_a_local_file_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = File(path="mine.csv", local="data/local/mine.csv", sha256=DIGEST)
    with pytest.raises(InputMissingError, match=r"data/local/mine\.csv is missing"):
        fetcher(tmp_path).fetch(file, tmp_path / "raw")
    Path("data/local").mkdir(parents=True)
    Path("data/local/mine.csv").write_bytes(CONTENT)
    fetcher(tmp_path).fetch(file, tmp_path / "raw")
    Path("data/local/mine.csv").write_bytes(b"edited")
    with pytest.raises(DataError, match=r"mine\.csv from data/local/mine\.csv has the checksum"):
        fetcher(tmp_path).fetch(file, tmp_path / "raw")


def packed(kind: str, name: str, content: bytes) -> bytes:
    """Return an archive with one member."""
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(name, content)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode=kind) as tar:  # type: ignore[call-overload]
        item = tarfile.TarInfo(name)
        item.size = len(content)
        tar.addfile(item, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("address", "kind"),
    [("a.zip?download=1", "zip"), ("A.ZIP", "zip"), ("a.tar", "w:"), ("get?id=7", "zip"), ("get?id=8", "w:gz")],
)
def test_an_archive_is_known_by_its_content(server: Server, tmp_path: Path, address: str, kind: str) -> None:
    server.files[address] = packed(kind, "deep/train.csv", CONTENT)
    archive = Archive(members=["train.csv"], to="file")
    fetcher(tmp_path).fetch(one(server, url=server.address(address), archive=archive), tmp_path / "raw")
    assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT


def test_a_damaged_archive_is_no_file_of_its_own(server: Server, tmp_path: Path) -> None:
    server.files["a.zip?download=1"] = packed("zip", "train.csv", CONTENT)[:-100]
    file = one(server, url=server.address("a.zip?download=1"), archive=Archive(members=["train.csv"]), sha256=None)
    with pytest.raises(DataError, match=r"a\.zip is a corrupt archive"):
        fetcher(tmp_path).fetch(file, tmp_path / "raw")


def test_a_mirror_may_hold_the_one_file_of_an_archive(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPIGRAM_MIRROR", str(tmp_path))
    for number, content in enumerate((CONTENT, packed("zip", "inner.csv", CONTENT))):
        digest = hashlib.sha256(content).hexdigest()
        file = one(server, archive=Archive(members=["train.csv"], to="file"), sha256=digest)
        for name, data in ((f"{number}.csv", content), (f"{number}.csv.gz", gzip.compress(content))):
            (tmp_path / name).write_bytes(data)
            fetcher(tmp_path).fetch(replace(file, mirror=name), tmp_path / "raw")
            assert (tmp_path / "raw/train.csv").read_bytes() == content


def test_local_archives_are_taken_apart_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data/local").mkdir(parents=True)
    Path("data/local/a.zip").write_bytes(packed("zip", "deep/train.csv", CONTENT))
    Path("data/local/a.csv.gz").write_bytes(gzip.compress(CONTENT))
    archive = Archive(members=["train.csv"], to="file")
    for file in (
        File(path="train.csv", local="data/local/a.zip", archive=archive, sha256=DIGEST),
        File(path="train.csv", local="data/local/a.csv.gz", sha256=DIGEST),
    ):
        fetcher(tmp_path).fetch(file, tmp_path / "raw")
        assert (tmp_path / "raw/train.csv").read_bytes() == CONTENT
