"""Readers for files of pretrained word vectors.

* .vec, .txt: one word and its numbers per line (word2vec, GloVe, fastText), with or without a header of two counts.
* .npz: the vectors (K, E), with an array of the K words or a separate word list: NAME.json or rows.json (a JSON list)
  in the same folder.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.config_types import has_type, shown
from epigram.core.errors import DataError
from epigram.core.files import read_json
from epigram.core.limits import LIMITS

SUFFIXES = (".npz", ".txt", ".vec")
MAX_WIDTH = 1 << 16  # maximum width of a vector
MAX_LINE_BYTES = MAX_WIDTH << 6  # bytes; a number takes at most 25
Rows = Iterator[tuple[str, Callable[[], Any]]]  # a word, and a function that returns its E numbers
Table = tuple[Sequence[str], NDArray[Any]]


def open_vectors(path: Path) -> tuple[int, Rows]:
    """Return the width E of the vectors in `path` and an iterator over them, in order; text files are parsed lazily.

    Raises DataError for a file that does not match its suffix and, during iteration, for a line of another width.
    """
    if path.suffix in {".txt", ".vec"}:
        width, rows = _open_text(path)
    else:
        words, table = _read_npz(path)
        if table.ndim != 2 or table.dtype.kind != "f" or len(words) != len(table):
            shape = f"{table.dtype} {table.shape} for {len(words):,} words"
            raise DataError(f"{path} contains {shape}; expected one row of floats per word")
        width, rows = table.shape[1], ((word, partial(table.__getitem__, row)) for row, word in enumerate(words))
    if not 1 <= width <= MAX_WIDTH:
        raise DataError(f"{path} has vectors of {width} numbers; expected 1 to {MAX_WIDTH}")
    return width, rows


def _open_text(path: Path) -> tuple[int, Rows]:
    lines = _read_lines(path)
    number, first = next(lines, (0, b""))
    parts = first.split()
    if number == 1 and len(parts) == 2 and all(part.isdigit() and len(part) < 20 for part in parts):
        return int(parts[1]), _parse_lines(lines, int(parts[1]), path)
    if len(parts) < 2:
        raise DataError(f"{path} contains no vectors; expected a word and its numbers in every line")
    return len(parts) - 1, _parse_lines(chain([(number, first)], lines), len(parts) - 1, path)


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and content of every non-blank line. Raises DataError for a line that is too long."""
    with path.open("rb") as file:
        for number, raw in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
            if len(raw) > MAX_LINE_BYTES:
                raise DataError(f"{path} line {number} is longer than {MAX_LINE_BYTES >> 20} MB: the file is damaged")
            if line := raw.replace(b"\t", b" ").rstrip():
                yield number, line


def _parse_lines(lines: Iterator[tuple[int, bytes]], width: int, path: Path) -> Rows:
    for number, line in lines:
        if line.count(b" ") == width:  # fast path for most lines: numbers are parsed only if the vector is needed
            word = line[: line.find(b" ")]
        else:
            word = _unusual_word(line, width, f"{path} line {number}")
        yield word.decode("utf-8", "replace"), partial(_parse_numbers, line, width, f"{path} line {number}")


def _unusual_word(line: bytes, width: int, where: str) -> bytes:
    """Return the word of a line with additional blanks. Raises DataError for another width."""
    parts = line.split()
    if len(parts) == width and line.startswith(b" "):
        return b" "
    if len(parts) == width + 1:
        return parts[0]
    if len(parts) > width + 1 and not _is_number(parts[-width - 1]):
        return b" ".join(parts[:-width])
    raise DataError(f"{where} has {len(parts) - 1} numbers; expected {width}, as in the first line")


def _is_number(part: bytes) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


def _parse_numbers(line: bytes, width: int, where: str) -> list[float]:
    try:
        return [float(part) for part in line.split()[-width:]]
    except ValueError as error:
        raise DataError(f"{where}: {shown(str(error))}") from None


def _read_npz(path: Path) -> Table:
    try:
        with zipfile.ZipFile(path) as members:
            size = sum(item.file_size for item in members.infolist())
        if size > LIMITS.allowance(path.stat().st_size):
            raise ValueError("its contents are larger than a file of its size may have")
        with warnings.catch_warnings(action="ignore"), np.load(path, allow_pickle=False) as bundle:  # noqa: TID251
            arrays = [np.asarray(bundle[name]) for name in bundle.files]  # non-arrays are read as bytes
    except Exception as error:  # numpy parses the header as Python code, which can raise any error
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} is not a valid .npz file of plain arrays ({reason})") from None
    tables = [array for array in arrays if array.ndim == 2]
    words = [array for array in arrays if array.ndim == 1 and array.dtype.kind == "U"]
    if len(tables) != 1 or len(words) > 1:
        shapes = ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
        raise DataError(
            f"{path} contains {shapes or 'nothing'}; expected one array of vectors and at most one of words"
        )
    return (_to_strings(words[0], path) if words else _read_word_list(path)), tables[0]


def _to_strings(words: NDArray[Any], path: Path) -> list[str]:
    codes = np.frombuffer(words.astype(words.dtype.newbyteorder("<")).tobytes(), "<u4")
    if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
        raise DataError(f"{path} contains words that are not valid Unicode: it is damaged")
    return list(words.tolist())


def _read_word_list(path: Path) -> list[str]:
    """Return the words of the rows of `path`, from the word list in the same folder."""
    candidates = [path.with_suffix(".json"), path.with_name("rows.json")]
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    if found is None:
        raise DataError(
            f"{path} has no list of the words of its rows: put one next to it, named "
            f"{' or '.join(candidate.name for candidate in candidates)}"
        )
    words = read_json(found)
    if not has_type(words, list[str]):
        raise DataError(f"{found} does not contain a list of words")
    return list(words)
