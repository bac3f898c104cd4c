"""Lines of bytes, one text per line, read without holding the file in memory."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import IO

from epigram.core.errors import DataError, ParameterError, ReadOptionError
from epigram.text.guessing import FIRST_BYTES, check_binary, detect_encoding

LONGEST_LINE = 64 << 20  # bytes
SAMPLE_LINES = 1024  # lines by which the encoding is detected, unless all of them are ASCII
LINE_END = re.compile(r"\r*\n|\r")
BOM = "\ufeff"
ADVICE = "use --encoding {}"


def read_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file. Raises DataError for a line above the size limit before it is read whole."""
    for number in count(1):
        line = file.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise DataError(f"{name} {number} is longer than {LONGEST_LINE >> 20} MB; write one text per line")
        if not line:
            return
        yield line


def read_texts(path: Path, encoding: str | None = None, advice: str = ADVICE) -> Iterator[str]:
    """Yield the texts of a file, one per line and without line ends, as `decode_lines` does; all lines are examined."""
    name = f"{path} line"
    with path.open("rb") as file:
        check_binary(file.read(FIRST_BYTES), path)
        file.seek(0)
        known = encoding or _detect(read_lines(file, name), name, 1, advice)
        file.seek(0)
        yield from decode_lines(read_lines(file, name), name, known)


def decode_lines(lines: Iterable[bytes], name: str, encoding: str | None = None) -> Iterator[str]:
    """Yield the texts of a stream, one per line and without line ends, given its bytes up to each line feed.

    Without `encoding`, the first lines that are not ASCII decide. Errors name a line by `name` and its number. Raises
    DataError for a line with another encoding or a NUL byte, or if no encoding is clearly the likely one, and
    ParameterError for an unknown encoding.
    """
    lines, number = iter(lines), 1
    while encoding is None and (head := list(islice(lines, SAMPLE_LINES))):
        if any(not line.isascii() or b"\0" in line for line in head):
            encoding, lines = _detect(head, name, number, ADVICE), chain(head, lines)
        else:
            texts = list(_decode(head, "ascii", name, number))
            yield from texts
            number += len(texts)
    if encoding is not None:
        yield from _decode(lines, check_encoding(encoding), name, number)


def decode_arguments(texts: Sequence[str], encoding: str | None = None) -> list[str]:
    """Return the texts of a command line; Python has decoded the texts that are in the encoding of the locale."""
    broken = [os.fsencode(text) for text in texts if not _is_unicode(text)]
    name = check_encoding(encoding or _detect(broken, "text", 1, ADVICE))
    try:
        return [text if _is_unicode(text) else os.fsencode(text).decode(name) for text in texts]
    except UnicodeDecodeError:
        raise DataError(f"a text is not {name}; use another --encoding") from None


def _detect(lines: Iterable[bytes], name: str, number: int, advice: str) -> str:
    try:
        return detect_encoding(lines, name, number)
    except ReadOptionError as error:
        raise error.with_advice(encoding=advice) from None


def _is_unicode(text: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in text)


def check_encoding(encoding: str, option: str = "--encoding") -> str:
    """Return Python's name of an encoding of texts. Raises ParameterError for an unknown one."""
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise ParameterError(
            f"{option} is {encoding!r}; expected a known encoding, for example utf-8, gb18030 or cp1252"
        ) from None


def _decode(lines: Iterable[bytes], encoding: str, name: str, number: int) -> Iterator[str]:
    """Yield the texts of `lines`, the first of which is line `number`; characters of UTF-16 may contain a line feed."""
    decoder, rest = codecs.getincrementaldecoder(encoding)(), ""
    for line in chain(lines, [b""]):
        try:
            rest += decoder.decode(line, not line)
        except UnicodeError:
            raise DataError(f"{name} {number} is not {encoding}; it is damaged or has another encoding") from None
        whole, end, rest = (rest if line or not rest else f"{rest}\n").rpartition("\n")
        for text in LINE_END.split(whole + end)[:-1]:
            if "\0" in text:
                raise DataError(f"{name} {number} has a NUL byte; the input is not text, or is damaged")
            yield text if number > 1 else text.removeprefix(BOM)
            number += 1
