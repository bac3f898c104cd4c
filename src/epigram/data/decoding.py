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
from epigram.text.guessing import SAMPLE_SIZE, guess

BLOCK_SIZE = 8 << 20
UTF_8 = {"utf-8", "utf-8-sig"}
WIDE = ("utf-16", "utf-32")
ANY_BYTES = {"latin-1", "cp1252"}  # encodings that accept nearly any bytes
# encodings to try if later bytes of a file do not fit the likely one
FALLBACK_ENCODINGS = {"utf-8": {"gbk", "gb18030", "big5", *ANY_BYTES}, "gbk": {"gb18030"}, "latin-1": {"cp1252"}}
CONTROL = re.compile(rb"[\x80-\x9f]")  # control characters in latin-1; “ ” – … in cp1252
BOM = "\ufeff"


def to_utf8(path: Path, encoding: str = "utf-8") -> Path | io.BytesIO:
    """Return the path of a UTF-8 file, or the text of another file encoded as UTF-8.

    Raises DataError for a folder, an empty file, a wrong encoding (with the byte's offset and the likely encoding) and
    NUL bytes (with the line), InputMissingError for a missing file, ParameterError for an unknown encoding.
    """
    try:
        name = codecs.lookup(encoding).name
        size = path.stat().st_size
    except LookupError:
        raise ParameterError(
            f"read.encoding is {encoding!r}; expected a known encoding, for example utf-8, gbk or latin-1"
        ) from None
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing; run the download stage (dvc repro)") from None
    if not path.is_file():
        raise DataError(f"{path} is a folder; expected a file")
    if name in UTF_8:
        _check_utf8(path)
        source: Path | io.BytesIO = path
    else:
        source = _transcode(path, encoding)
        size = source.getbuffer().nbytes
    if size <= len(codecs.BOM_UTF8) and not open_text(source).read():
        raise DataError(f"{path} is empty")
    return source


def open_text(source: Path | io.BytesIO) -> TextIO:
    """Open the result of `to_utf8` as text, from its start."""
    stream = source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getvalue())
    return io.TextIOWrapper(stream, "utf-8-sig", newline="")


def _transcode(path: Path, encoding: str) -> io.BytesIO:
    """Convert a file from `encoding` to UTF-8; the file is read in blocks to reject a wrong encoding early."""
    if not getattr(codecs.lookup(encoding), "_is_text_encoding", True):
        raise DataError(f"{path} is not {encoding}; set read.encoding")
    result, lines = io.BytesIO(), 0
    with path.open("rb") as file:
        try:
            for _, text, offset in _decode_blocks(file, encoding):
                if offset is not None:
                    raise _encoding_error(path, encoding, file, offset)
                result.write((text if result.tell() else text.removeprefix(BOM)).encode())
                if "\0" in text:
                    raise _nul_error(path, lines + text[: text.index("\0")].count("\n") + 1)
                lines += text.count("\n")
        except UnicodeError:
            raise DataError(f"{path} is not {encoding}; set read.encoding") from None
    result.seek(0)
    return result


def decode(data: bytes, encoding: str, where: str | Path) -> str:
    """Decode the content of a whole file. Raises DataError for a wrong or unknown encoding and NUL bytes."""
    try:
        text = data.decode(encoding)
        text.encode()
    except UnicodeDecodeError as error:
        raise _encoding_error(where, encoding, io.BytesIO(data), error.start) from None
    except (UnicodeError, LookupError):
        raise DataError(f"{where} is not {encoding}; set read.encoding") from None
    if "\0" in text:
        raise _nul_error(where, text[: text.index("\0")].count("\n") + 1)
    return text.removeprefix(BOM)


def _check_utf8(path: Path) -> None:
    """Check that the file is UTF-8 without NUL bytes, one block at a time."""
    lines = 0
    with path.open("rb") as file:
        for block, _, offset in _decode_blocks(file, "utf-8"):
            if b"\0" in block:
                if _guess_at(file, 0).startswith(WIDE):
                    raise _encoding_error(path, "utf-8", file, 0)
                raise _nul_error(path, lines + block[: block.index(b"\0")].count(b"\n") + 1)
            if offset is not None:
                raise _encoding_error(path, "utf-8", file, offset)
            lines += block.count(b"\n")


def _decode_blocks(file: IO[bytes], encoding: str) -> Iterator[tuple[bytes, str, int | None]]:
    """Yield the blocks with their text and None, up to a block with an invalid byte and the offset of that byte."""
    decoder, end, block = codecs.getincrementaldecoder(encoding)(), 0, b"-"
    file.seek(0)
    while block:
        block = file.read(BLOCK_SIZE)
        end += len(block)
        try:
            text = decoder.decode(block, not block)
        except UnicodeDecodeError as error:  # error.object starts with leftover bytes of earlier blocks
            yield block, "", end - len(error.object) + error.start
            return
        yield block, text, None


def _encoding_error(where: str | Path, encoding: str, file: IO[bytes], offset: int) -> DataError:
    likely = _guess_refined(file, offset)
    advice = f"the encoding is probably {likely}: set read.encoding: {likely}"
    if not likely or codecs.lookup(likely).name == codecs.lookup(encoding).name:
        advice = "the file is damaged or has an unknown encoding"
    return DataError(f"{where} is not {encoding.upper()} at byte {offset}; {advice}")


def _nul_error(where: str | Path, line: int) -> DataError:
    return DataError(f"{where} has a NUL byte in line {line}; the file is damaged or is not a text file")


def guess_encoding(path: Path) -> str:
    """Return the most likely encoding of a file, or "" if none is likely."""
    with path.open("rb") as file:
        return _guess_refined(file, 0)


def _guess_refined(file: IO[bytes], offset: int) -> str:
    """Return the likely encoding by the lines from `offset` on, refined by bytes later in the file."""
    likely = _guess_at(file, offset)
    while (misfit := _find_misfit(file, likely)) is not None:
        better = _guess_at(file, misfit)
        if better not in FALLBACK_ENCODINGS[likely]:  # the file is damaged there, which its reader reports
            break
        likely = better
    return likely


def _find_misfit(file: IO[bytes], encoding: str) -> int | None:
    """Return the offset of the first byte that suggests an encoding of WIDER: an invalid or a control character."""
    end = 0
    for block, _, offset in _decode_blocks(file, encoding) if encoding in FALLBACK_ENCODINGS else ():
        if offset is not None:
            return offset
        if encoding == "latin-1" and (control := CONTROL.search(block)):
            return end + control.start()
        end += len(block)
    return None


def _guess_at(file: IO[bytes], offset: int) -> str:
    """Return the likely encoding: UTF-16 or UTF-32 by the file's start, others by the lines from `offset` on."""
    file.seek(0)
    head = file.read(SAMPLE_SIZE)
    likely = guess(head)
    if likely.startswith(WIDE):
        return likely
    file.seek(max(0, offset - SAMPLE_SIZE))
    before = file.read(min(offset, SAMPLE_SIZE))
    line = before[before.rfind(b"\n") + 1 :]  # only UTF-16 and UTF-32 have this byte inside a character
    from_there = line + file.read(SAMPLE_SIZE - len(line))
    likely = guess(from_there)
    return "" if likely in ANY_BYTES and _mostly_utf8(head + before + from_there) else likely


def _mostly_utf8(data: bytes) -> bool:
    """Return whether valid non-ASCII UTF-8 characters outnumber replaced invalid bytes."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    return sum(character > "\x7f" for character in text) > 2 * broken


@contextmanager
def translate_polars_errors(path: Path) -> Iterator[None]:
    """Convert polars errors about an unreadable file into a DataError that names the file."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from None
    except pl.exceptions.PanicException as error:  # a bug of polars that corrupt bytes trigger
        raise DataError(f"{path} cannot be read: the file is damaged ({' '.join(str(error).split())[:200]})") from None


def read_lines(path: Path, encoding: str = "utf-8") -> pl.DataFrame:
    """Return the lines of a file without line endings: line (Int64, from 1), text (String)."""
    source = to_utf8(path, encoding)
    with translate_polars_errors(path):
        frame = pl.read_lines(source, name="text", row_index_name="line", row_index_offset=1)
    text = pl.col("text").str.strip_suffix("\r")
    unmarked = pl.when(pl.col("line") == 1).then(text.str.strip_prefix(BOM)).otherwise(text)
    return frame.select(pl.col("line").cast(pl.Int64), unmarked)
