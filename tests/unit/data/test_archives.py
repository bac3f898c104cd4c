"""Tests of archives: repacking gives the same bytes for every format, and malicious archives are refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epigram.core.errors import DataError
from epigram.core.limits import Limits
from epigram.data.sources import archives


def tar_gz(path: Path, files: dict[str, bytes], *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            tar.addfile(item, io.BytesIO(content))
        for item in extra:
            tar.addfile(item)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    item = tarfile.TarInfo(name)
    item.type, item.linkname = kind, target
    return item


def test_repacking_gives_the_same_bytes_whatever_the_packing(tmp_path: Path) -> None:
    files = {"posts/b.txt": b"2", "posts/a.txt": b"1", "posts/notes.md": b"no"}
    one = tar_gz(tmp_path / "one.tar.gz", files)
    other = tar_gz(tmp_path / "other.tar.gz", {f"repo-abc/data/{name}": files[name] for name in reversed(files)})
    packed = tmp_path / "third.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"repo/{name}", content)
    results = []
    for path in (one, other, packed):
        archives.repack(path, tmp_path / "out.tar", ["posts/*.txt"])
        results.append((tmp_path / "out.tar").read_bytes())
    assert results[0] == results[1] == results[2]
    read = {str(member.path): member.stream.read() for member in archives.iter_members(tmp_path / "out.tar")}
    assert read == {"posts/a.txt": b"1", "posts/b.txt": b"2"}


def test_one_member_or_the_list_of_names(tmp_path: Path) -> None:
    path = tar_gz(tmp_path / "x.tar.gz", {"r/labels/b.json": b"{}", "r/labels/a.json": b"{}", "r/train.csv": b"a,b"})
    archives.unpack_one(path, tmp_path / "train.csv", ["train.csv"])
    archives.write_names(path, tmp_path / "names.txt", ["labels/*.json"])
    assert (tmp_path / "train.csv").read_bytes() == b"a,b"
    assert (tmp_path / "names.txt").read_text() == "a.json\nb.json\n"
    with pytest.raises(DataError, match="several members that match"):
        archives.unpack_one(path, tmp_path / "one", ["labels/*.json"])
    with pytest.raises(DataError, match=r"no member that matches dev\.csv"):
        archives.unpack_one(path, tmp_path / "one", ["dev.csv"])


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "a\\..\\evil.txt", "C:/evil.txt"])
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = tar_gz(tmp_path / "x.tar.gz", {"good.txt": b"1", name: b"2"})
    with pytest.raises(DataError, match="path leaves the archive's folder"):
        archives.repack(path, tmp_path / "out.tar", ["*.txt"])
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    path = tar_gz(tmp_path / "x.tar.gz", {"good.txt": b"1"}, special("link.txt", kind, "/etc/passwd"))
    with pytest.raises(DataError, match="not a regular file"):
        list(archives.iter_members(path))


def test_a_symbolic_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    item = zipfile.ZipInfo("link.txt")
    item.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(item, "/etc/passwd")
    with pytest.raises(DataError, match="not a regular file"):
        list(archives.iter_members(tmp_path / "x.zip"))


def test_two_members_at_one_path_are_refused(tmp_path: Path) -> None:
    path = tar_gz(tmp_path / "x.tar.gz", {"a/train.csv": b"1", "b/train.csv": b"2"})
    with pytest.raises(DataError, match=r"two members at 'train\.csv'"):
        archives.repack(path, tmp_path / "out.tar", ["train.csv"])


def test_bombs_are_refused_before_they_unpack(tmp_path: Path) -> None:
    zeros = bytes(3 << 20)
    tarred = tar_gz(tmp_path / "x.tar.gz", {"zeros.txt": zeros})
    (tmp_path / "x.gz").write_bytes(gzip.compress(zeros))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.txt", zeros)
    tight = Limits(free=1 << 20)
    with pytest.raises(DataError, match="archive bomb"):
        archives.repack(tarred, tmp_path / "out", ["*.txt"], tight)
    with pytest.raises(DataError, match="archive bomb"):
        archives.unpack_one(tmp_path / "x.zip", tmp_path / "out", ["*.txt"], tight)
    with pytest.raises(DataError, match="archive bomb"):
        archives.gunzip(tmp_path / "x.gz", tmp_path / "out", tight)
    with pytest.raises(DataError, match="archive bomb"):
        archives.repack(tarred, tmp_path / "out", ["*.txt"], Limits(taken=1 << 20))
    with pytest.raises(DataError, match="more than 2 members"):
        list(archives.iter_members(tar_gz(tmp_path / "m.tar.gz", dict.fromkeys("abc", b"")), Limits(members=2)))
    archives.gunzip(tmp_path / "x.gz", tmp_path / "zeros")
    assert (tmp_path / "zeros").stat().st_size == len(zeros)


def test_a_cut_archive_is_named(tmp_path: Path) -> None:
    path = tar_gz(tmp_path / "x.tar.gz", {"a.txt": bytes(range(256)) * 50})
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"x\.tar\.gz is a corrupt archive"):
        archives.repack(path, tmp_path / "out", ["*.txt"])


def test_a_zip_whose_members_lie_before_its_start_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.txt", "a")
    data = bytearray(path.read_bytes())
    data[-6] += 10  # the offset of the central directory
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"x\.zip is a corrupt archive"):
        archives.repack(path, tmp_path / "out", ["*.txt"])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["", "gzip", "zip"]), st.integers(0, 300), st.binary(max_size=30))
def test_random_bytes_raise_no_foreign_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, kind: str, place: int, patch: bytes
) -> None:
    folder = tmp_path_factory.mktemp("noise", numbered=True)
    path = folder / "x"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", noise)
    else:
        tar_gz(path, {"a.txt": noise})
    data = gzip.decompress(path.read_bytes()) if kind == "" else path.read_bytes()
    path.write_bytes(data[:place] + patch + data[place + len(patch) :])
    try:
        archives.repack(path, folder / "out", ["*.txt"])
    except DataError as error:
        assert str(error).startswith("x ")
