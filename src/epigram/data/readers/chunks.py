"""Reading of large files in pieces, so that memory use does not grow with their size."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path

from epigram.core.errors import DataError

PIECE = 8 << 20  # bytes
LONGEST_ROW = 64 << 20  # bytes; a longer row is an error, because memory would hold it several times
BLANK = b" \t\r\n"


class LongRowError(DataError):
    """Error for a row above the length limit."""


def pieces(source: Path | io.BytesIO, path: Path, quote: str | None = None) -> Iterator[bytes]:
    """Yield pieces of about 8 MB that end with a row; a line break inside quotes does not end a row.

    Only the first piece may start with whitespace. The byte order mark is left out. Raises LongRowError, which names
    `path`, for a row above the limit.
    """
    mark, rest = (quote or "").encode(), b""
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getvalue()) as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while block := file.read(PIECE):
            if end := _end(rest, mark):
                yield rest[:end]
                rest = rest[end:]
            rest += block
            if len(rest) > LONGEST_ROW + PIECE:
                advice = " (a quotation mark that is never closed?)" if mark else ""
                raise LongRowError(f"{path} has a row of more than {LONGEST_ROW >> 20} MB{advice}: split or correct it")
    if rest:
        yield rest


def _end(data: bytes, mark: bytes) -> int:
    """Return the end of the last row in the newest piece of `data` that another row follows, or 0 if there is none."""
    inside = bool(mark) and data.count(mark) % 2 == 1
    end, after = data.rfind(b"\n") + 1, len(data)
    while end >= max(1, len(data) - PIECE):
        inside ^= bool(mark) and data.count(mark, end, after) % 2 == 1
        if not inside and end < len(data) and data[end] not in BLANK:
            return end
        before = data.rfind(mark, 0, end) if inside else end - 1
        end, after = data.rfind(b"\n", 0, before) + 1, end
    return 0
