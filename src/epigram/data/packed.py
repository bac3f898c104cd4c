"""Text files that may be compressed with gzip: their suffix and their content."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from epigram.core.errors import DataError
from epigram.core.limits import LIMITS

GZIP = ".gz"


class _Unpacked(gzip.GzipFile):
    """Content of a gzip file; raises DataError where it exceeds the limit for files of this size."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self.path, self.limit = path, LIMITS.allowance(path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() > self.limit:
            raise DataError(f"{self.path} unpacks to more than the size limit; possibly a decompression bomb")
        return data


@contextmanager
def open_unpacked(source: Path | io.BytesIO) -> Iterator[IO[bytes]]:
    """Open a file, or text in memory, at its start; a file whose name ends with .gz is unpacked as it is read.

    Raises DataError for a damaged file.
    """
    if not isinstance(source, Path):
        yield io.BytesIO(source.getvalue())
        return
    if source.suffix.lower() != GZIP:
        with source.open("rb") as file:
            yield file
        return
    try:
        with _Unpacked(source) as unpacked:
            yield cast("IO[bytes]", unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{source} is not a complete gzip file ({error}); compress or copy it again") from None


def file_suffix(path: Path) -> str:
    """Return the suffix of a file name in lower case, with the one before it if the file is compressed: .csv.gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() + suffix if suffix == GZIP else suffix


def file_stem(path: Path) -> str:
    """Return the file name without `file_suffix`."""
    return path.name[: len(path.name) - len(file_suffix(path))]
