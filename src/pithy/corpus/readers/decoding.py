"""Text files: their encoding is checked, a wrong one is named, and NUL bytes are refused."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import polars as pl

from pithy.errors import DataError, InputMissingError, ParameterError

BLOCK = 8 << 20
SAMPLE = 1 << 20
UTF_8 = {"utf-8", "utf-8-sig"}
BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
COMMON = 0.8  # share of a Chinese text's characters that are everyday ones


def utf8(path: Path, encoding: str = "utf-8") -> Path | io.BytesIO:
    """What a reader of UTF-8 can read: the file itself, or its text encoded anew.

    Raises DataError for an empty file, a wrong encoding (named, with the byte's place) and NUL bytes (with the line);
    InputMissingError for a missing file; ParameterError for an encoding that does not exist.
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
    if not size:
        raise DataError(f"{path} is empty")
    if name in UTF_8:
        _check_utf8(path)
        return path
    return io.BytesIO(decode(path.read_bytes(), encoding, path).encode())


def reopened(source: Path | io.BytesIO) -> TextIO:
    """The text of what `utf8` gave, from its start."""
    stream = source.open("rb") if isinstance(source, Path) else io.BytesIO(source.getvalue())
    return io.TextIOWrapper(stream, "utf-8-sig", newline="")


def decode(data: bytes, encoding: str, where: str | Path) -> str:
    """The text of a whole file in any encoding. Raises DataError as `utf8` does."""
    try:
        text = data.decode(encoding)
        text.encode()
    except UnicodeDecodeError as error:
        raise _wrong_encoding(where, encoding, data, error.start) from None
    except (UnicodeError, LookupError):
        raise DataError(f"{where} is not {encoding}: set read.encoding") from None
    if "\0" in text:
        raise _nul(where, text[: text.index("\0")].count("\n") + 1)
    return text.removeprefix("\ufeff")


def _check_utf8(path: Path) -> None:
    """Read the file once, a block at a time."""
    offset, lines, rest = 0, 0, b""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            if b"\0" in block:
                if guess_encoding(path).startswith(("utf-16", "utf-32")):
                    raise _wrong_encoding(path, "utf-8", path.read_bytes()[:SAMPLE], 0)
                raise _nul(path, lines + block[: block.index(b"\0")].count(b"\n") + 1)
            rest = _decoded_up_to(path, rest + block, offset - len(rest), final=False)
            offset += len(block)
            lines += block.count(b"\n")
    _decoded_up_to(path, rest, offset - len(rest), final=True)


def _decoded_up_to(path: Path, data: bytes, offset: int, *, final: bool) -> bytes:
    """Bytes of a character that `data` breaks off; `offset` is where in the file `data` starts."""
    try:
        _, used = codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError as error:
        with path.open("rb") as file:
            raise _wrong_encoding(path, "utf-8", file.read(SAMPLE), offset + error.start) from None
    return data[used:]


def _wrong_encoding(where: str | Path, encoding: str, data: bytes, place: int) -> DataError:
    likely = guess(data)
    advice = f"it looks like {likely}: set read.encoding: {likely}" if likely else "its encoding is unknown"
    return DataError(f"{where} is not {encoding.upper()} at byte {place}; {advice}")


def _nul(where: str | Path, line: int) -> DataError:
    return DataError(f"{where} has a NUL byte in line {line}: it is no text file, or it is damaged there")


def guess_encoding(path: Path) -> str:
    """The likeliest encoding of a file, `` where none is likely."""
    with path.open("rb") as file:
        return guess(file.read(SAMPLE))


def guess(data: bytes) -> str:
    """The likeliest encoding of a text's first bytes, `` where none is likely."""
    for mark, name in BOMS:
        if data.startswith(mark):
            return name
    if data.count(b"\0") > len(data) // 10:
        odd = data[1::2].count(b"\0") > data[::2].count(b"\0")
        return "utf-16-le" if odd else "utf-16-be"
    for name, likely in (("utf-8", _any), ("gbk", _simplified), ("gb18030", _simplified), ("big5", _traditional)):
        if (text := _lenient(data, name)) is not None and likely(text):
            return name
    if b"\0" in data:
        return ""
    windows = any(0x80 <= byte < 0xA0 for byte in data)
    return "cp1252" if windows and _lenient(data, "cp1252") is not None else "latin-1"


def _lenient(data: bytes, encoding: str) -> str | None:
    """The text, a character cut off at the end aside; None where it is not this encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        return decoder.decode(data, len(data) < SAMPLE)
    except UnicodeDecodeError:
        return None


def _any(text: str) -> bool:
    return True


def _simplified(text: str) -> bool:
    """Whether most characters beyond ASCII stand in the marks or the first level of GB 2312."""
    return _share(text, "gb2312", lambda lead, trail: lead in range(0xA1, 0xA4) or lead in range(0xB0, 0xD8))


def _traditional(text: str) -> bool:
    """Whether most characters beyond ASCII stand in the marks or the first level of Big5."""
    return _share(text, "big5", lambda lead, trail: lead in range(0xA1, 0xC7))


def _share(text: str, encoding: str, everyday: Callable[[int, int], bool]) -> bool:
    beyond = [character for character in text if ord(character) > 0x7F]
    pairs = [character.encode(encoding, "ignore") for character in beyond]
    common = sum(len(pair) == 2 and everyday(*pair) for pair in pairs)
    return bool(beyond) and common >= COMMON * len(beyond)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what polars says about a file that it cannot read into a DataError that names the file."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from None
    except pl.exceptions.PanicException as error:  # a fault of polars that broken bytes bring out
        raise DataError(f"{path} cannot be read: it is damaged ({' '.join(str(error).split())[:200]})") from None


def lines(path: Path, encoding: str = "utf-8") -> pl.DataFrame:
    """The lines of a file, numbered from 1: line (Int64), text (String), without the line's end."""
    source = utf8(path, encoding)
    with readable(path):
        frame = pl.read_lines(source, name="text", row_index_name="line", row_index_offset=1)
    return frame.select(pl.col("line").cast(pl.Int64), pl.col("text").str.strip_suffix("\r"))
