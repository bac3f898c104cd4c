"""Vectorized counting and lookup of characters by code point, without a Python loop over characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from epigram.core.ragged import Ragged, lengths_of

CODE_POINTS = 0x110000
# Unicode whitespace, as in polars and tokenizers; str.strip would also remove U+001C to U+001F
WHITESPACE = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and not "\x1c" <= c <= "\x1f")
WHITESPACE_CODES = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)


def code_points(texts: Sequence[str]) -> NDArray[np.uint32]:
    """Return the code points of all texts, concatenated."""
    return np.frombuffer("".join(texts).encode("utf-32-le"), dtype="<u4")


def characters_of(texts: Sequence[str]) -> Ragged[np.uint32]:
    """Return the code points of each text."""
    return Ragged.from_lengths(code_points(texts), lengths_of(texts))


def count_characters(batches: Iterable[Sequence[str]]) -> NDArray[np.int64]:
    """Return how often each code point occurs, (0x110000,)."""
    counts = np.zeros(CODE_POINTS, dtype=np.int64)
    for texts in batches:
        batch = np.bincount(code_points(texts))
        counts[: len(batch)] += batch
    return counts


def by_frequency(counts: NDArray[np.int64], min_count: int) -> list[str]:
    """Return the characters with a count of at least `min_count`, most frequent first; ties are in code point order."""
    codes = np.flatnonzero(counts >= max(min_count, 1))
    return [chr(code) for code in codes[np.argsort(-counts[codes], kind="stable")]]


def lookup_table(vocabulary: Sequence[str], unk_id: int) -> NDArray[np.int32]:
    """Return the id of every code point, (0x110000,); code points outside the vocabulary get `unk_id`."""
    table = np.full(CODE_POINTS, unk_id, dtype=np.int32)
    for index, entry in enumerate(vocabulary):
        if len(entry) == 1:
            table[ord(entry)] = index
    return table


def strip(text: str) -> str:
    """Strip leading and trailing whitespace from `text`, as the readers of corpora do."""
    return text.strip(WHITESPACE)


def leading_whitespace(text: str) -> int:
    """Return the number of leading whitespace characters of `text`."""
    return len(text) - len(text.lstrip(WHITESPACE))
