"""Reading of large files in chunks, so that memory use does not grow with their size."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path

from epigram.core.errors import DataError

CHUNK_SIZE = 8 << 20  # bytes
MAX_ROW_SIZE = 64 << 20  # bytes; a longer row is an error, because memory would hold it several times
WHITESPACE = b" \t\r\n"


class LongRowError(DataError):
    """Error for a row above the length limit."""


def read_chunks(source: Path | io.BytesIO, path: Path, quote: str | None = None) -> Iterator[bytes]:
    """Yield chunks of about 8 MB that end with a row; a line break inside quotes does not end a row.

    Only the first chunk may start with whitespace. The byte order mark is left out. Raises LongRowError, which names
    `path`, for a row above the limit.
    """
    quote_byte, rest = (quote or "").encode(), b""
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getvalue()) as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while block := file.read(CHUNK_SIZE):
            if end := _last_row_end(rest, quote_byte):
                yield rest[:end]
                rest = rest[end:]
            rest += block
            if len(rest) > MAX_ROW_SIZE + CHUNK_SIZE:
                hint = " (unclosed quotation mark?)" if quote_byte else ""
                raise LongRowError(
                    f"{path} has a row of more than {MAX_ROW_SIZE >> 20} MB{hint}; split or correct the row"
                )
    if rest:
        yield rest


def _last_row_end(data: bytes, quote_byte: bytes) -> int:
    """Return the end of the last row in the newest chunk of `data` that another row follows, or 0 if there is none."""
    inside = bool(quote_byte) and data.count(quote_byte) % 2 == 1
    end, after = data.rfind(b"\n") + 1, len(data)
    while end >= max(1, len(data) - CHUNK_SIZE):
        inside ^= bool(quote_byte) and data.count(quote_byte, end, after) % 2 == 1
        if not inside and end < len(data) and data[end] not in WHITESPACE:
            return end
        before = data.rfind(quote_byte, 0, end) if inside else end - 1
        end, after = data.rfind(b"\n", 0, before) + 1, end
    return 0
