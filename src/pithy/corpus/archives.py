"""Archives that came from elsewhere: no path out of the folder, no links, no bombs, nothing written but plain files."""

from __future__ import annotations

import errno
import gzip
import io
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from pithy.errors import DataError
from pithy.values import shown

BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, struct.error),
    *(EOFError, ValueError, OverflowError, LookupError, RuntimeError),  # what the libraries raise over broken bytes
)


ZIPPED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


@dataclass(frozen=True)
class Limits:
    """What an archive may hold; beyond it, it is taken for a bomb."""

    members: int = 300_000
    unpacked: int = 8 << 30  # bytes of the whole archive
    taken: int = 1 << 30  # bytes of the members that are wanted
    ratio: int = 200  # unpacked bytes to packed ones
    free: int = 64 << 20  # unpacked bytes that no ratio is asked of


class _Bounded(io.RawIOBase):
    """A stream that gives `limit` bytes and fails over the next, before it makes room for it."""

    def __init__(self, stream: IO[bytes], limit: int, name: str) -> None:
        self.stream, self.left, self.name = stream, limit, name

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        self.left -= len(data)
        if self.left < 0:
            raise DataError(f"{self.name} unpacks to more than it may: it looks like an archive bomb")
        return data


@dataclass(frozen=True)
class Member:
    """One regular file of an archive; `stream` can be read until the next member is asked for."""

    path: PurePosixPath
    stream: IO[bytes]


def _allowance(archive: Path, limits: Limits) -> int:
    return min(limits.unpacked, max(limits.free, limits.ratio * archive.stat().st_size))


@contextmanager
def whole(archive: Path) -> Iterator[None]:
    """Turn what the libraries raise over broken bytes into a DataError that names the archive."""
    try:
        yield
    except (*BROKEN, OSError) as error:
        if getattr(error, "errno", None) not in {None, errno.EINVAL}:  # the disk's fault, not the archive's
            raise
        reason = shown(str(error))
        raise DataError(f"{archive.name} is not a whole archive ({reason}): delete it and fetch it again") from None


def _safe(name: str, archive: Path) -> PurePosixPath:
    """The member's path, when it stays below the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or ":" in name.partition("/")[0]:
        raise DataError(f"{archive.name} has the member {name!r}, which points out of its folder")
    if any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in path.parts):
        raise DataError(f"{archive.name} has a member whose name is too long: {name[:60]!r}…")
    return path


def is_archive(path: Path) -> bool:
    """Whether a file is a zip, a tar or a tar.gz archive."""
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except BROKEN:
        return False


def members(archive: Path, limits: Limits = Limits()) -> Iterator[Member]:
    """The regular files of a tar, tar.gz or zip archive, one after the other.

    Raises DataError for links, devices, paths out of the folder, bombs and broken archives.
    """
    with whole(archive):
        walk = _zip_members if zipfile.is_zipfile(archive) else _tar_members
        for number, member in enumerate(walk(archive, limits), start=1):
            if number > limits.members:
                raise DataError(f"{archive.name} has more than {limits.members} members: it looks like an archive bomb")
            yield member


def _tar_members(archive: Path, limits: Limits) -> Iterator[Member]:
    with _opened(archive) as packed:
        bounded = cast("IO[bytes]", _Bounded(packed, _allowance(archive, limits), archive.name))
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for item in tar:
                path = _safe(item.name, archive)
                if item.isdir():
                    continue
                if not item.isreg() or item.issparse():
                    raise DataError(f"{archive.name} has the member {item.name!r}, which is no plain file")
                yield Member(path, cast("IO[bytes]", tar.extractfile(item)))


def _opened(archive: Path) -> IO[bytes]:
    with archive.open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(archive)) if gzipped else archive.open("rb")


def _zip_members(archive: Path, limits: Limits) -> Iterator[Member]:
    left = _allowance(archive, limits)
    with zipfile.ZipFile(archive) as packed:
        for item in packed.infolist():
            path = _safe(item.filename, archive)
            if item.is_dir():
                continue
            if item.external_attr >> 16 & 0o170000 not in {0, 0o100000} or item.compress_type not in ZIPPED:
                raise DataError(f"{archive.name} has the member {item.filename!r}, which is no plain file")
            with packed.open(item) as stream:
                bounded = _Bounded(stream, left, archive.name)
                yield Member(path, cast("IO[bytes]", bounded))
                left = bounded.left


def _tail(path: PurePosixPath, patterns: list[str]) -> PurePosixPath | None:
    """The last parts of `path`, as many as the first pattern that matches them has."""
    for pattern in patterns:
        if path.match(pattern):
            return PurePosixPath(*path.parts[-len(PurePosixPath(pattern).parts) :])
    return None


def matching(archive: Path, patterns: list[str], limits: Limits = Limits()) -> Iterator[Member]:
    """The members whose last parts match a pattern, under those parts as their path.

    Raises DataError, also where nothing matches or two members come to the same path.
    """
    seen: set[PurePosixPath] = set()
    for member in members(archive, limits):
        tail = _tail(member.path, patterns)
        if tail is None:
            continue
        if tail in seen:
            raise DataError(f"{archive.name} has two members at {str(tail)!r}")
        seen.add(tail)
        yield Member(tail, member.stream)
    if not seen:
        raise DataError(f"{archive.name} has no member like {', '.join(patterns)}")


def repack(archive: Path, target: Path, patterns: list[str], limits: Limits = Limits()) -> None:
    """Write the matching members to the plain tar `target`: sorted, without dates or owners, so always the same bytes.

    Thousands of small files stay one file, which every later step reads faster than a folder. Raises DataError.
    """
    contents: dict[str, bytes] = {}
    left = limits.taken
    for member in matching(archive, patterns, limits):
        with whole(archive):
            contents[str(member.path)] = _Bounded(member.stream, left, archive.name).read()
        left -= len(contents[str(member.path)])
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(contents):
            item = tarfile.TarInfo(name)
            item.size = len(contents[name])
            tar.addfile(item, io.BytesIO(contents[name]))


def unpack_one(archive: Path, target: Path, patterns: list[str], limits: Limits = Limits()) -> None:
    """Write the one matching member to `target`. Raises DataError where there are several."""
    for index, member in enumerate(matching(archive, patterns, limits)):
        if index:
            raise DataError(f"{archive.name} has several members like {', '.join(patterns)}")
        with target.open("wb") as file, whole(archive):
            shutil.copyfileobj(member.stream, file)


def names(archive: Path, target: Path, patterns: list[str], limits: Limits = Limits()) -> None:
    """Write the file names of the matching members to `target`, sorted, one a line. Raises DataError."""
    found = sorted(member.path.name for member in matching(archive, patterns, limits))
    target.write_text("".join(f"{name}\n" for name in found), encoding="utf-8")


def gunzip(packed: Path, target: Path, limits: Limits = Limits()) -> None:
    """Unpack one .gz file. Raises DataError."""
    with gzip.open(packed) as stream, target.open("wb") as file, whole(packed):
        bounded: Any = _Bounded(cast("IO[bytes]", stream), _allowance(packed, limits), packed.name)
        shutil.copyfileobj(bounded, file)
