"""Safe reading of untrusted archives: only regular files, no paths outside the folder, no links, no archive bombs."""

from __future__ import annotations

import errno
import gzip
import io
import shutil
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError
from epigram.core.limits import LIMITS, Limits

CORRUPTION_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, struct.error),
    *(EOFError, ValueError, OverflowError, LookupError, RuntimeError),  # raised by the libraries for corrupt bytes
)


ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
EXTENDED_HEADERS = {
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
}
UNSUPPORTED_SIGNATURES = (b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # signatures of bzip2, xz and zstd: not supported


class _LimitedStream(io.RawIOBase):
    """Stream that raises DataError beyond `limit` bytes (it reads at most one more) or after `seconds`."""

    def __init__(self, stream: IO[bytes], limit: int, name: str, seconds: float = LIMITS.seconds) -> None:
        self.stream, self.left, self.name = stream, limit, name
        self.end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        self.left -= len(data)
        if self.left < 0:
            raise DataError(f"{self.name} unpacks to more than the size limit; possibly an archive bomb")
        if time.monotonic() > self.end:
            raise DataError(f"{self.name} takes too long to unpack; possibly an archive bomb")
        return data


@dataclass(frozen=True)
class ArchiveFile:
    """Regular file of an archive; `stream` is readable until the next member is requested."""

    path: PurePosixPath
    stream: IO[bytes]


@contextmanager
def translate_archive_errors(archive: Path) -> Iterator[None]:
    """Convert the libraries' exceptions for corrupt bytes into a DataError that names the archive."""
    try:
        yield
    except (*CORRUPTION_ERRORS, OSError) as error:
        if getattr(error, "errno", None) not in {None, errno.EINVAL}:  # a disk error, not a corrupt archive
            raise
        reason = shown(str(error))
        raise DataError(f"{archive.name} is a corrupt archive ({reason}); delete it and download it again") from None


def _safe_path(name: str, archive: Path) -> PurePosixPath:
    """Return the member's path; raise DataError if it leaves the folder or is too long."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or ":" in name.partition("/")[0]:
        raise DataError(f"{archive.name} has the member {name!r}, whose path leaves the archive's folder")
    if any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in path.parts):
        raise DataError(f"{archive.name} has a member whose name is too long: {name[:60]!r}…")
    return path


def is_archive(path: Path) -> bool:
    """Return whether a file has an archive's signature: zip, tar, tar.gz or an unsupported one (bzip2, xz, zstd)."""
    try:
        if _has_signature(path, UNSUPPORTED_SIGNATURES) or zipfile.is_zipfile(path):
            return True
        with _open_archive(path) as stream:
            tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), tarfile.ENCODING, "surrogateescape")
    except CORRUPTION_ERRORS:
        return False
    return True


def iter_members(archive: Path, limits: Limits = LIMITS) -> Iterator[ArchiveFile]:
    """Yield the regular files of a tar, tar.gz or zip archive.

    Raises DataError for links, devices, paths outside the folder, archive bombs and corrupt archives.
    """
    with translate_archive_errors(archive):
        walk = _zip_members if zipfile.is_zipfile(archive) else _tar_members
        for number, member in enumerate(walk(archive, limits), start=1):
            if number > limits.members:
                raise DataError(f"{archive.name} has more than {limits.members} members; possibly an archive bomb")
            if member is not None:
                yield member


def iter_contents(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the path and content of every file of an archive.

    Raises DataError as `iter_members` does, InputMissingError for a missing archive.
    """
    if not archive.is_file():
        raise InputMissingError(f"{archive} is missing; run the download stage (dvc repro)")
    for member in iter_members(archive):
        with translate_archive_errors(archive):
            content = member.stream.read()
        yield member.path, content


def _tar_members(archive: Path, limits: Limits) -> Iterator[ArchiveFile | None]:
    """Yield the regular files, and None for each folder."""
    size = archive.stat().st_size
    with _open_archive(archive) as packed:
        bounded = cast("IO[bytes]", _LimitedStream(packed, limits.allowance(size), archive.name, limits.seconds))
        with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_limited_tarinfo(archive, limits)) as tar:
            while (item := tar.next()) is not None:
                cast("Any", tar).members.clear()  # tarfile would keep every header in memory
                path = _safe_path(item.name, archive)
                if not item.isdir() and (not item.isreg() or item.issparse()):
                    raise _not_regular_file(archive, item.name)
                yield None if item.isdir() else ArchiveFile(path, cast("IO[bytes]", tar.extractfile(item)))


def _limited_tarinfo(archive: Path, limits: Limits) -> type[tarfile.TarInfo]:
    """Return a TarInfo class for one tar that rejects long extended headers before tarfile reads and parses them."""
    # tarfile reads a whole extended header into memory, and older versions parse it in quadratic time.
    left = max(limits.headers, limits.header_ratio * archive.stat().st_size)

    class Header(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
            nonlocal left
            header = super().frombuf(buf, encoding, errors)
            if header.type == tarfile.GNUTYPE_SPARSE:
                raise _not_regular_file(archive, header.name)
            if header.type in EXTENDED_HEADERS:
                left -= header.size
                if left < 0 or header.size > limits.header:
                    raise DataError(f"{archive.name} has too long extended headers; possibly an archive bomb")
            return header

        def _proc_gnusparse_10(self, *_: object) -> None:
            raise _not_regular_file(archive, self.name)

    return Header


def _not_regular_file(archive: Path, name: str) -> DataError:
    return DataError(f"{archive.name} has the member {name!r}, which is not a regular file")


def _open_archive(archive: Path) -> IO[bytes]:
    if _has_signature(archive, UNSUPPORTED_SIGNATURES):
        raise DataError(f"{archive.name} is compressed with bzip2, xz or zstd; expected zip, tar or tar.gz")
    return cast("IO[bytes]", gzip.open(archive)) if _has_signature(archive, (b"\x1f\x8b",)) else archive.open("rb")


def _has_signature(path: Path, signatures: tuple[bytes, ...]) -> bool:
    with path.open("rb") as file:
        return file.read(8).startswith(signatures)


def _zip_members(archive: Path, limits: Limits) -> Iterator[ArchiveFile | None]:
    """Yield the regular files, and None for each folder."""
    left = limits.allowance(archive.stat().st_size)
    end = time.monotonic() + limits.seconds
    with zipfile.ZipFile(archive) as packed:
        for item in packed.infolist():
            path = _safe_path(item.filename, archive)
            if item.is_dir():
                yield None
                continue
            if item.external_attr >> 16 & 0o170000 not in {0, 0o100000} or item.compress_type not in ZIP_METHODS:
                raise _not_regular_file(archive, item.filename)
            with packed.open(item) as stream:
                bounded = _LimitedStream(stream, left, archive.name, end - time.monotonic())
                yield ArchiveFile(path, cast("IO[bytes]", bounded))
                left = bounded.left


def iter_matching(archive: Path, patterns: list[str], limits: Limits = LIMITS) -> Iterator[ArchiveFile]:
    """Yield the members whose last path parts match a pattern; their path is reduced to these parts.

    Raises DataError as `iter_members` does, and if no member matches or two members get the same path.
    """
    seen: set[PurePosixPath] = set()
    for member in iter_members(archive, limits):
        pattern = next(filter(member.path.match, patterns), None)
        if pattern is None:
            continue
        tail = PurePosixPath(*member.path.parts[-len(PurePosixPath(pattern).parts) :])
        if tail in seen:
            raise DataError(f"{archive.name} has two members at {str(tail)!r}")
        seen.add(tail)
        yield ArchiveFile(tail, member.stream)
    if not seen:
        raise DataError(f"{archive.name} has no member that matches {', '.join(patterns)}")


def repack(archive: Path, target: Path, patterns: list[str], limits: Limits = LIMITS) -> None:
    """Write the matching members to the uncompressed tar `target`.

    Members are sorted and have no dates or owners, so the output is deterministic. Later stages read one tar faster
    than a folder of thousands of small files. Raises DataError as `iter_matching` does.
    """
    contents: dict[str, bytes] = {}
    left = limits.taken
    for member in iter_matching(archive, patterns, limits):
        with translate_archive_errors(archive):
            contents[str(member.path)] = _LimitedStream(member.stream, left, archive.name).read()
        left -= len(contents[str(member.path)])
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(contents):
            item = tarfile.TarInfo(name)
            item.size = len(contents[name])
            tar.addfile(item, io.BytesIO(contents[name]))


def unpack_one(archive: Path, target: Path, patterns: list[str], limits: Limits = LIMITS) -> None:
    """Write the one matching member to `target`. Raises DataError if several members match."""
    for index, member in enumerate(iter_matching(archive, patterns, limits)):
        if index:
            raise DataError(f"{archive.name} has several members that match {', '.join(patterns)}")
        with target.open("wb") as file, translate_archive_errors(archive):
            shutil.copyfileobj(member.stream, file)


def write_names(archive: Path, target: Path, patterns: list[str]) -> None:
    """Write the file names of the matching members to `target`, sorted, one per line. Raises DataError."""
    found = sorted(member.path.name for member in iter_matching(archive, patterns))
    target.write_text("".join(f"{name}\n" for name in found), encoding="utf-8")


def gunzip(packed: Path, target: Path, limits: Limits = LIMITS) -> None:
    """Decompress one .gz file. Raises DataError if it is corrupt or too large."""
    with gzip.open(packed) as stream, target.open("wb") as file, translate_archive_errors(packed):
        allowed = limits.allowance(packed.stat().st_size)
        bounded: Any = _LimitedStream(cast("IO[bytes]", stream), allowed, packed.name, limits.seconds)
        shutil.copyfileobj(bounded, file)
