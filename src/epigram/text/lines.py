"""Lines of UTF-8 bytes, one text per line, read without holding the file in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import IO

from epigram.core.errors import DataError
from epigram.text.guessing import guess

LONGEST_LINE = 64 << 20  # bytes


def read_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file. Raises DataError for a line above the size limit before it is read whole."""
    for number in count(1):
        line = file.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise DataError(f"{name} {number} is longer than {LONGEST_LINE >> 20} MB; write one text per line")
        if not line:
            return
        yield line


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield each line as a text, without the line ending; errors name a line by `name` and its number.

    Raises DataError for a line that is not UTF-8, with its likely encoding, and for a line with a NUL byte.
    """
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise _not_utf8(line, f"{name} {number}") from None
        if "\0" in text:
            raise DataError(f"{name} {number} has a NUL byte; the input is not text, or is damaged")
        yield text.rstrip("\r\n")


def _not_utf8(line: bytes, place: str) -> DataError:
    likely = guess(line)
    return DataError(f"{place} is not UTF-8{f', it looks like {likely}' if likely else ''}; convert it to UTF-8")
