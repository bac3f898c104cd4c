"""Decoding of text files: detects and checks the encoding, and rejects NUL bytes."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

import polars as pl

from epigram.core.errors import DataError, InputMissingError, ReadOptionError
from epigram.data.packed import open_unpacked
from epigram.text.guessing import FIRST_BYTES, check_binary, detect_encoding
from epigram.text.lines import BOM, check_encoding

BLOCK_SIZE = 8 << 20
UTF_8 = {"utf-8", "utf-8-sig"}
WIDE = ("utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


def guess_encoding(path: Path) -> str:
    """Return the encoding of a file. Raises DataError if it cannot be told, and for a file that is not text."""
    with open_unpacked(path) as file:
        check_binary(file.read(FIRST_BYTES), path)
        if all(offset is None and b"\0" not in block for block, _, offset in _decode_blocks(file, "utf-8")):
            return "utf-8"
        file.seek(0)
        return detect_encoding(_split_lines(file), f"{path} line")


def _split_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, which may be CR; a very long line comes in pieces."""
    while line := file.readline(BLOCK_SIZE):
        yield from line.splitlines(keepends=True)


def to_utf8(path: Path, encoding: str = "utf-8") -> Path | io.BytesIO:
    """Return the path of a UTF-8 file, or the text of another file encoded as UTF-8.

    Raises DataError for a folder, an empty file, a wrong encoding (with the byte's offset, the line and the likely
    encoding) and NUL bytes (with the line), InputMissingError for a missing file, ParameterError for an unknown
    encoding.
    """
    name = check_encoding(encoding, "read.encoding")
    if not path.is_file():
        if path.is_dir():
            raise DataError(f"{path} is a folder; expected a file")
        raise InputMissingError(f"{path} is missing; run the download stage (dvc repro)")
    source: Path | io.BytesIO = path
    if name in UTF_8:
        size = _check_utf8(path)
    else:
        source = _transcode(path, name)
        size = source.getbuffer().nbytes
    if not size:
        raise DataError(f"{path} is empty")
    return source


@contextmanager
def open_text(source: Path | io.BytesIO) -> Iterator[TextIO]:
    """Open the result of `to_utf8` as text, from its start."""
    with open_unpacked(source) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        yield text


def _transcode(path: Path, encoding: str) -> io.BytesIO:
    """Convert a file from `encoding` to UTF-8; the file is read in blocks to reject a wrong encoding early."""
    result, lines = io.BytesIO(), 0
    with open_unpacked(path) as file:
        for _, text, offset in _decode_blocks(file, encoding):
            if offset is not None:
                raise _encoding_error(path, encoding, file, offset)
            if "\0" in text:
                raise _nul_error(path, lines + text[: text.index("\0")].count("\n") + 1)
            result.write((text if result.tell() else text.removeprefix(BOM)).encode())
            lines += text.count("\n")
    result.seek(0)
    return result


def decode(data: bytes, encoding: str, where: str | Path) -> str:
    """Decode the content of a whole file. Raises DataError for a wrong encoding and NUL bytes."""
    try:
        text = data.decode(check_encoding(encoding, "read.encoding"))
        text.encode()  # some encodings have halves of characters
    except UnicodeError as error:
        offset = error.start if isinstance(error, UnicodeDecodeError) else 0
        raise _encoding_error(where, encoding, io.BytesIO(data), offset) from None
    if "\0" in text:
        raise _nul_error(where, text[: text.index("\0")].count("\n") + 1)
    return text.removeprefix(BOM)


def _check_utf8(path: Path) -> int:
    """Check that the file is UTF-8 without NUL bytes, one block at a time; return its size without byte order mark."""
    lines, size = 0, 0
    with open_unpacked(path) as file:
        for block, _, offset in _decode_blocks(file, "utf-8"):
            if b"\0" in block:
                error = _encoding_error(path, "utf-8", file, 0)
                line = lines + block[: block.index(b"\0")].count(b"\n") + 1
                raise error if isinstance(error, ReadOptionError) and error.value in WIDE else _nul_error(path, line)
            if offset is not None:
                raise _encoding_error(path, "utf-8", file, offset)
            size += len(block.removeprefix(codecs.BOM_UTF8)) if not size else len(block)
            lines += block.count(b"\n")
    return size


def _decode_blocks(file: IO[bytes], encoding: str) -> Iterator[tuple[bytes, str, int | None]]:
    """Yield the blocks with their text and None, up to a block with an invalid byte and the offset of that byte."""
    decoder, end, block = codecs.getincrementaldecoder(encoding)(), 0, b"-"
    file.seek(0)
    while block:
        block = file.read(BLOCK_SIZE)
        end += len(block)
        try:
            text = decoder.decode(block, not block)
            text.encode()  # some encodings have halves of characters
        except UnicodeDecodeError as error:  # error.object starts with leftover bytes of earlier blocks
            yield block, "", end - len(error.object) + error.start
            return
        except UnicodeError:
            yield block, "", end - len(block)
            return
        yield block, text, None


def _encoding_error(where: str | Path, encoding: str, file: IO[bytes], offset: int) -> DataError:
    """Return the error for a byte that `encoding` does not have, with the encoding that the file probably has."""
    try:
        file.seek(0)
        likely = detect_encoding(_split_lines(file), f"{where} line")
    except DataError as error:
        return error
    file.seek(0)
    line = sum(file.read(min(BLOCK_SIZE, offset - start)).count(b"\n") for start in range(0, offset, BLOCK_SIZE)) + 1
    problem = f"{where} is not {encoding.upper()} at byte {offset} in line {line}"
    if likely == encoding:
        return DataError(f"{problem}; the file is damaged")
    return ReadOptionError(f"{problem}; the encoding is probably {likely}", "encoding", likely)


def _nul_error(where: str | Path, line: int) -> DataError:
    return DataError(f"{where} has a NUL byte in line {line}; the file is damaged or is not a text file")


@contextmanager
def translate_polars_errors(path: Path) -> Iterator[None]:
    """Convert polars errors about an unreadable file, whose texts mean nothing to a user, into a DataError."""
    try:
        yield
    except pl.exceptions.DuplicateError:
        raise DataError(f"{path} has two columns of the same name; rename one") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # corrupt bytes trigger bugs of polars
        kind = path.suffix.lower().removeprefix(".") or "text"
        raise DataError(f"{path} is not a valid {kind} file, or is damaged; correct it or export it again") from error


def read_lines(path: Path, encoding: str = "utf-8") -> pl.DataFrame:
    """Return the lines of a file without line ends: line (Int64, from 1), text (String)."""
    source = to_utf8(path, encoding)
    with translate_polars_errors(path):
        frame = pl.read_lines(source, name="text")
    text = frame["text"].str.strip_chars_end("\r")
    if text.str.contains("\r", literal=True).any():  # line ends of one kind, or mixed
        text = text.str.split("\r").explode()
    unmarked = pl.when(pl.col("line") == 1).then(pl.col("text").str.strip_prefix(BOM)).otherwise(pl.col("text"))
    return pl.DataFrame({"text": text}).with_row_index("line", 1).select(pl.col("line").cast(pl.Int64), unmarked)
