"""Reading of large files in chunks of rows, so that memory use does not grow with their size."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.data.packed import open_unpacked

CHUNK_SIZE = 8 << 20  # bytes
MAX_ROW_SIZE = 64 << 20  # bytes; a longer row is an error, because memory would hold it several times
NEWLINE, RETURN, SPACE = BLANK = tuple(b"\n\r ")


class LongRowError(DataError):
    """Error for a row above the length limit."""


@dataclass(frozen=True)
class Chunk:
    """R rows of a file: their bytes `data`, the end of each in `data` (R,), and the number of its first line (R,)."""

    data: bytes
    ends: NDArray[np.int64]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, rows: slice) -> Chunk:
        """Return the chunk of some neighbouring rows."""
        first, stop, _ = rows.indices(len(self))
        start = self.ends[first - 1] if first else 0
        ends = self.ends[first:stop]
        return Chunk(self.data[start : ends[-1] if len(ends) else start], ends - start, self.lines[first:stop])

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield the first line and the bytes of each row; for few rows, as it is slow."""
        for number, start, end in zip(self.lines, np.append(0, self.ends), self.ends, strict=False):
            yield int(number), self.data[start:end]


def read_rows(source: Path | io.BytesIO, path: Path, quote: str | None = None) -> Iterator[Chunk]:
    """Yield the rows of `read_chunks` without blank lines."""
    return filter(len, map(_drop_blank, _split(source, path, quote)))


def read_chunks(source: Path | io.BytesIO, path: Path, quote: str | None = None) -> Iterator[bytes]:
    """Yield a text in UTF-8 in pieces of about 8 MB that end with a row.

    A row ends with LF or CR LF, but not inside quotes. If the first row ends with CR, so do others, and CR becomes LF;
    in other files, CR is a character of a value. The byte order mark is left out. Raises LongRowError, which names
    `path`, for a row above the limit.
    """
    return (chunk.data for chunk in _split(source, path, quote))


def _split(source: Path | io.BytesIO, path: Path, quote: str | None) -> Iterator[Chunk]:
    rest, line, block, returns = b"", 1, b"-", None
    with open_unpacked(source) as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while block:
            block = file.read(CHUNK_SIZE)
            if returns is None:
                returns = _ends_with_return(np.frombuffer(rest + block, np.uint8), quote)
            chunk, rest, line = _split_rows(rest + block, quote, line, returns=bool(returns), final=not block)
            if len(chunk):
                yield chunk
            if len(rest) > MAX_ROW_SIZE:
                hint = " (unclosed quotation mark?)" if quote else ""
                raise LongRowError(
                    f"{path} has a row of more than {MAX_ROW_SIZE >> 20} MB{hint} at line {line}; split or correct it"
                )


def _ends_with_return(codes: NDArray[np.uint8], quote: str | None) -> bool | None:
    """Return whether the first row ends with CR without LF; None if its end is not among the `codes`."""
    breaks = _find_breaks(codes, returns=True)
    ends = breaks[_is_outside(codes, breaks, quote)]
    return bool(codes[ends[0]] == RETURN) if len(ends) else None


def _split_rows(data: bytes, quote: str | None, line: int, *, returns: bool, final: bool) -> tuple[Chunk, bytes, int]:
    """Return the complete rows of `data`, which starts with line `line`, the rest, and the line of the rest.

    `returns`: CR ends rows too. If `final`, nothing follows, so the rest is a row as well.
    """
    codes = np.frombuffer(data, np.uint8)
    breaks = _find_breaks(codes, returns=returns)
    outside = _is_outside(codes, breaks, quote)
    ends, lines = breaks[outside] + 1, np.append(line, np.flatnonzero(outside) + line + 1)
    if final and (ends[-1] if len(ends) else 0) < len(data):
        ends, lines = np.append(ends, len(data)), np.append(lines, line + len(breaks))
    stop = int(ends[-1]) if len(ends) else 0
    if returns:
        codes = codes.copy()
        codes[breaks[outside]] = NEWLINE
        data = codes.tobytes()
    return Chunk(data[:stop], ends, lines[:-1]), data[stop:], int(lines[-1])


def _find_breaks(codes: NDArray[np.uint8], *, returns: bool) -> NDArray[np.int64]:
    """Return the positions of LF, and with `returns` of CR without LF, which may follow after the end."""
    is_break = codes == NEWLINE
    if returns:
        follows = np.append(is_break[1:], True)
        is_break |= (codes == RETURN) & ~follows
    return np.flatnonzero(is_break)


def _is_outside(codes: NDArray[np.uint8], breaks: NDArray[np.int64], quote: str | None) -> NDArray[np.bool_]:
    """Return for each of the `breaks` whether it is outside quotes."""
    outside = np.ones(len(breaks), np.bool_)
    if quote:
        outside = np.searchsorted(np.flatnonzero(codes == ord(quote)), breaks) % 2 == 0
    return outside


def _drop_blank(chunk: Chunk) -> Chunk:
    """Return the chunk without rows of nothing but spaces."""
    codes, starts = np.frombuffer(chunk.data, np.uint8), np.append(0, chunk.ends[:-1])
    if not np.isin(codes[starts], BLANK).any():
        return chunk
    filled = np.add.reduceat(~np.isin(codes, BLANK), starts, dtype=np.int64) > 0
    sizes = chunk.ends - starts
    data = codes[np.repeat(filled, sizes)].tobytes()
    return Chunk(data, np.cumsum(sizes[filled]), chunk.lines[filled])
