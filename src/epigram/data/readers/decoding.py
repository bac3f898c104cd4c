"""Decoding of text files: checks the encoding, suggests the right one, and rejects NUL bytes."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

import polars as pl

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.readers.guessing import SAMPLE, guess

BLOCK = 8 << 20
UTF_8 = {"utf-8", "utf-8-sig"}
WIDE = ("utf-16", "utf-32")
ANY_BYTES = {"latin-1", "cp1252"}  # encodings that accept nearly any bytes
# encodings to try if later bytes of a file do not fit the likely one
WIDER = {"utf-8": {"gbk", "gb18030", "big5", *ANY_BYTES}, "gbk": {"gb18030"}, "latin-1": {"cp1252"}}
CONTROL = re.compile(rb"[\x80-\x9f]")  # control characters in latin-1; “ ” – … in cp1252
BOM = "\ufeff"


def utf8(path: Path, encoding: str = "utf-8") -> Path | io.BytesIO:
    """Return the path of a UTF-8 file, or the text of another file encoded as UTF-8.

    Raises DataError for a folder, an empty file, a wrong encoding (with the byte's offset and the likely encoding) and
    NUL bytes (with the line), InputMissingError for a missing file, ParameterError for an unknown encoding.
    """
    try:
        name = codecs.lookup(encoding).name
        size = path.stat().st_size
    except LookupError:
        raise ParameterError(f"read.encoding was {encoding!r}: no such encoding; try utf-8, gbk or latin-1") from None
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the download stage (dvc repro)") from None
    if not path.is_file():
        raise DataError(f"{path} is a folder: this reader reads one file")
    if name in UTF_8:
        _check_utf8(path)
        source: Path | io.BytesIO = path
    else:
        source = _encoded_anew(path, encoding)
        size = source.getbuffer().nbytes
    if size <= len(codecs.BOM_UTF8) and not reopened(source).read():
        raise DataError(f"{path} is empty")
    return source


def reopened(source: Path | io.BytesIO) -> TextIO:
    """Open the result of `utf8` as text, from its start."""
    stream = source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getvalue())
    return io.TextIOWrapper(stream, "utf-8-sig", newline="")


def _encoded_anew(path: Path, encoding: str) -> io.BytesIO:
    """Return the text of a file encoded as UTF-8; it is read in blocks to reject a wrong encoding early."""
    if not getattr(codecs.lookup(encoding), "_is_text_encoding", True):
        raise DataError(f"{path} is not {encoding}: set read.encoding")
    result, lines = io.BytesIO(), 0
    with path.open("rb") as file:
        try:
            for _, text, place in _decoded(file, encoding):
                if place is not None:
                    raise _wrong_encoding(path, encoding, file, place)
                result.write((text if result.tell() else text.removeprefix(BOM)).encode())
                if "\0" in text:
                    raise _nul(path, lines + text[: text.index("\0")].count("\n") + 1)
                lines += text.count("\n")
        except UnicodeError:
            raise DataError(f"{path} is not {encoding}: set read.encoding") from None
    result.seek(0)
    return result


def decode(data: bytes, encoding: str, where: str | Path) -> str:
    """Decode the content of a whole file. Raises DataError for a wrong or unknown encoding and NUL bytes."""
    try:
        text = data.decode(encoding)
        text.encode()
    except UnicodeDecodeError as error:
        raise _wrong_encoding(where, encoding, io.BytesIO(data), error.start) from None
    except (UnicodeError, LookupError):
        raise DataError(f"{where} is not {encoding}: set read.encoding") from None
    if "\0" in text:
        raise _nul(where, text[: text.index("\0")].count("\n") + 1)
    return text.removeprefix(BOM)


def _check_utf8(path: Path) -> None:
    """Check that the file is UTF-8 without NUL bytes, one block at a time."""
    lines = 0
    with path.open("rb") as file:
        for block, _, place in _decoded(file, "utf-8"):
            if b"\0" in block:
                if _likely(file, 0).startswith(WIDE):
                    raise _wrong_encoding(path, "utf-8", file, 0)
                raise _nul(path, lines + block[: block.index(b"\0")].count(b"\n") + 1)
            if place is not None:
                raise _wrong_encoding(path, "utf-8", file, place)
            lines += block.count(b"\n")


def _decoded(file: IO[bytes], encoding: str) -> Iterator[tuple[bytes, str, int | None]]:
    """Yield the blocks with their text and None, up to a block with an invalid byte and the offset of that byte."""
    decoder, end, block = codecs.getincrementaldecoder(encoding)(), 0, b"-"
    file.seek(0)
    while block:
        block = file.read(BLOCK)
        end += len(block)
        try:
            text = decoder.decode(block, not block)
        except UnicodeDecodeError as error:  # error.object starts with leftover bytes of earlier blocks
            yield block, "", end - len(error.object) + error.start
            return
        yield block, text, None


def _wrong_encoding(where: str | Path, encoding: str, file: IO[bytes], place: int) -> DataError:
    likely = _guessed(file, place)
    advice = f"it looks like {likely}: set read.encoding: {likely}"
    if not likely or codecs.lookup(likely).name == codecs.lookup(encoding).name:
        advice = "it is damaged there, or its encoding is unknown"
    return DataError(f"{where} is not {encoding.upper()} at byte {place}; {advice}")


def _nul(where: str | Path, line: int) -> DataError:
    return DataError(f"{where} has a NUL byte in line {line}: it is no text file, or it is damaged there")


def guess_encoding(path: Path) -> str:
    """Return the most likely encoding of a file, or "" if none is likely."""
    with path.open("rb") as file:
        return _guessed(file, 0)


def _guessed(file: IO[bytes], place: int) -> str:
    """Return the likely encoding by the lines from `place` on, refined by bytes later in the file."""
    likely = _likely(file, place)
    while (misfit := _misfit(file, likely)) is not None:
        better = _likely(file, misfit)
        if better not in WIDER[likely]:  # the file is damaged there, which its reader reports
            break
        likely = better
    return likely


def _misfit(file: IO[bytes], encoding: str) -> int | None:
    """Return the offset of the first byte that suggests an encoding of WIDER: an invalid or a control character."""
    end = 0
    for block, _, place in _decoded(file, encoding) if encoding in WIDER else ():
        if place is not None:
            return place
        if encoding == "latin-1" and (control := CONTROL.search(block)):
            return end + control.start()
        end += len(block)
    return None


def _likely(file: IO[bytes], place: int) -> str:
    """Return the likely encoding: UTF-16 or UTF-32 by the file's start, others by the lines from `place` on."""
    file.seek(0)
    head = file.read(SAMPLE)
    likely = guess(head)
    if likely.startswith(WIDE):
        return likely
    file.seek(max(0, place - SAMPLE))
    before = file.read(min(place, SAMPLE))
    line = before[before.rfind(b"\n") + 1 :]  # only UTF-16 and UTF-32 have this byte inside a character
    from_there = line + file.read(SAMPLE - len(line))
    likely = guess(from_there)
    return "" if likely in ANY_BYTES and _mostly_utf8(head + before + from_there) else likely


def _mostly_utf8(data: bytes) -> bool:
    """Return whether valid non-ASCII UTF-8 characters outnumber replaced invalid bytes."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    return sum(character > "\x7f" for character in text) > 2 * broken


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Convert polars errors about an unreadable file into a DataError that names the file."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from None
    except pl.exceptions.PanicException as error:  # a bug of polars that corrupt bytes trigger
        raise DataError(f"{path} cannot be read: it is damaged ({' '.join(str(error).split())[:200]})") from None


def lines(path: Path, encoding: str = "utf-8") -> pl.DataFrame:
    """Return the lines of a file without line endings: line (Int64, from 1), text (String)."""
    source = utf8(path, encoding)
    with readable(path):
        frame = pl.read_lines(source, name="text", row_index_name="line", row_index_offset=1)
    text = pl.col("text").str.strip_suffix("\r")
    unmarked = pl.when(pl.col("line") == 1).then(text.str.strip_prefix(BOM)).otherwise(text)
    return frame.select(pl.col("line").cast(pl.Int64), unmarked)
