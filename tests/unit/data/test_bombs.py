"""Tests of decompression bombs: refused before they use memory or time; a file with a known checksum is not opened."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import tarfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError
from epigram.core.limits import Limits
from epigram.data.readers.parquet import Parquet
from epigram.data.sources import archives
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import Archive, File
from epigram.text.vectors.vector_files import open_vectors

MIB = 1 << 20


def header(kind: bytes, size: int, name: str = "x.txt") -> bytes:
    """Return one tar header block that declares `size` bytes of content."""
    item = tarfile.TarInfo(name)
    item.type, item.size = kind, size
    return item.tobuf(tarfile.GNU_FORMAT)


def extended(kind: bytes, content: bytes, number: int = 1) -> bytes:
    """Return a tar with `number` extended headers before one member."""
    block = header(kind, len(content)) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
    return block * number + header(tarfile.REGTYPE, 0) + bytes(2 * tarfile.BLOCKSIZE)


def peak(path: Path) -> int:
    """Return the peak memory in bytes of listing the members; the archive must be refused."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            list(archives.iter_members(path))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "kind",
    [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK],
)
def test_a_long_extended_header_is_not_read(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(extended(kind, bytes(32 * MIB)), 1))
    with pytest.raises(DataError, match=r"x\.tar\.gz has too long extended headers"):
        list(archives.iter_members(path))
    assert peak(path) < 4 * MIB


def test_a_header_that_is_slow_to_parse_is_not_parsed(tmp_path: Path) -> None:
    """A digit string without an end: some versions of tarfile try to match the number from every digit."""
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(extended(tarfile.XHDTYPE, b"1" * 100_000)))
    assert path.stat().st_size < 600
    start = time.monotonic()
    with pytest.raises(DataError, match="too long extended headers"):
        list(archives.iter_members(path))
    assert time.monotonic() - start < 1


def test_many_extended_headers_are_as_bad_as_a_long_one(tmp_path: Path) -> None:
    """The last of 20 headers of 15,000 bytes exceeds the total limit of 256 KiB."""
    path, record = tmp_path / "x.tar.gz", b"15000 a=" + b"b" * 14_991 + b"\n"
    path.write_bytes(gzip.compress(extended(tarfile.XGLTYPE, record, 17)))
    assert [str(member.path) for member in archives.iter_members(path)] == ["x.txt"]
    path.write_bytes(gzip.compress(extended(tarfile.XGLTYPE, record, 20)))
    with pytest.raises(DataError, match="too long extended headers"):
        list(archives.iter_members(path))


def test_long_names_are_read(tmp_path: Path) -> None:
    name = "/".join(["folder" * 20] * 20) + "/x.txt"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(tmp_path / "x.tar", "w", format=form) as tar:
            tar.addfile(tarfile.TarInfo(name))
        assert [str(member.path) for member in archives.iter_members(tmp_path / "x.tar")] == [name]


def test_folders_count_as_members_and_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(header(tarfile.DIRTYPE, 0, "folder") * 10_000 + bytes(1024), 1))
    with pytest.raises(DataError, match="more than 9999 members"):
        list(archives.iter_members(path, Limits(members=9_999)))
    tracemalloc.start()
    assert list(archives.iter_members(path)) == []
    assert tracemalloc.get_traced_memory()[1] < MIB
    tracemalloc.stop()


def old_sparse() -> bytes:
    """Return the header of a sparse file whose map continues in the next block."""
    block = bytearray(header(tarfile.GNUTYPE_SPARSE, 0))
    block[482] = 1
    block[148:156] = b"%06o\0 " % tarfile.calc_chksums(block)[0]  # type: ignore[attr-defined]
    return bytes(block)


def test_sparse_members_are_refused_before_their_map_is_read(tmp_path: Path) -> None:
    old = old_sparse() + (b"00000000001\0" * 42 + b"\1" + bytes(7)) * 16_384
    records = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
    new = header(tarfile.XHDTYPE, len(records)) + records.ljust(512, b"\0") + header(tarfile.REGTYPE, 32 * MIB)
    for content in (old, new):
        path = tmp_path / "x.tar.gz"
        path.write_bytes(gzip.compress(content + bytes(32 * MIB), 1))
        with pytest.raises(DataError, match="not a regular file"):
            list(archives.iter_members(path))
        assert peak(path) < 4 * MIB


def test_unpacking_ends_in_time(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("x.txt"))
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"x"))
    late = Limits(seconds=-1.0)
    with pytest.raises(DataError, match=r"x\.tar takes too long to unpack"):
        list(archives.iter_members(tmp_path / "x.tar", late))
    with pytest.raises(DataError, match=r"x\.gz takes too long to unpack"):
        archives.gunzip(tmp_path / "x.gz", tmp_path / "x", late)


def fetch(folder: Path, content: bytes, **values: object) -> Path:
    (folder / "packed").write_bytes(content)
    file = File(path="x.txt", local=str(folder / "packed"), archive=Archive(members=["x.txt"], to="file"), **values)  # type: ignore[arg-type]
    Fetcher(folder / "arrivals", DownloadSettings()).fetch(file, folder / "raw")
    return folder / "raw" / "x.txt"


@pytest.mark.parametrize("checksum", [None, "0" * 64])
def test_other_packings_are_refused_unopened(tmp_path: Path, checksum: str | None) -> None:
    """To check whether the file is a tar, tarfile would decompress bzip2 and read the whole header."""
    content = bz2.compress(extended(tarfile.XHDTYPE, bytes(8 * MIB)), 1)
    tracemalloc.start()
    with pytest.raises(DataError, match="packed is compressed with bzip2, xz or zstd"):
        fetch(tmp_path, content, sha256=checksum)
    assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    tracemalloc.stop()


def test_a_file_with_the_right_checksum_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> bool:
        raise AssertionError("the file was opened as an archive")

    content = gzip.compress(extended(tarfile.XHDTYPE, bytes(MIB)))
    monkeypatch.setattr(archives, "is_archive", opened)
    monkeypatch.setattr(archives, "unpack_one", opened)
    assert fetch(tmp_path, content, sha256=hashlib.sha256(content).hexdigest()).read_bytes() == content


def test_a_mirrors_checksum_is_verified_before_the_file_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPIGRAM_MIRROR", str(tmp_path))
    (tmp_path / "x.txt.gz").write_bytes(b"no gzip at all")
    file = File(path="x.txt", mirror="x.txt.gz", mirror_sha256="0" * 64, sha256="1" * 64)
    with pytest.raises(DataError, match=r"has the checksum .*expected 000000000000…"):
        Fetcher(tmp_path / "arrivals", DownloadSettings()).fetch(file, tmp_path / "raw")


def written(path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(path, compression="zstd")
    return path


def test_a_parquet_file_of_too_many_rows_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns of 2.2 million strings need 16 bytes per string, more than the 64 MiB allowed for a small file."""
    rows = pl.select(text=pl.repeat("a", 2_200_000), label=pl.repeat("b", 2_200_000))
    path = written(tmp_path / "x.parquet", rows)
    assert path.stat().st_size < 300_000
    monkeypatch.setattr(pl.LazyFrame, "collect_batches", None)
    with pytest.raises(DataError, match=r"x\.parquet unpacks to far more bytes than its size allows"):
        list(Parquet(text="text", label="label").read(path))


def test_a_parquet_file_of_one_long_text_many_times_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", pl.select(text=pl.repeat("a" * MIB, 65), label=pl.repeat("b", 65)))
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match="unpacks to far more bytes than its size allows"):
        list(Parquet(text="text", label="label").read(path))
    written(path, pl.select(text=pl.repeat("a" * MIB, 60), label=pl.repeat("b", 60)))
    assert sum(table.height for table in Parquet(text="text", label="label").read(path)) == 60


def test_packed_vectors_of_zeros_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """17 million numbers of 4 bytes need more than the 64 MiB allowed for a small file."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, np.zeros((170_000, 100), dtype=np.float32))
    assert path.stat().st_size < 200_000
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(DataError, match=r"x\.npz is not a valid .*larger than a file of its size may"):
        open_vectors(path)


def test_an_archive_is_known_by_its_first_block(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("x.txt"))
    for content, expected in (
        (packed.getvalue(), True),
        (gzip.compress(packed.getvalue()), True),
        (b"text,label\n" * 100, False),
        (gzip.compress(b"text,label\n" * 100), False),
        (b"", False),
        (b"\x1f\x8b damaged", False),
    ):
        (tmp_path / "x").write_bytes(content)
        assert archives.is_archive(tmp_path / "x") is expected
