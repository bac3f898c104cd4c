"""Characters of texts as arrays: counting and lookup by code point, and hashed n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Ragged, lengths_of
from epigram.text.dataset.language import Language

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


ORDERS: dict[Language, int] = {"zh": 2, "en": 3}  # characters in an n-gram
_SPLIT_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def hash_ngrams(texts: Sequence[str], language: Language) -> Ragged[np.uint64]:
    """Return a 64-bit hash of every character n-gram of each text, with a space before and after the text."""
    order, characters = ORDERS[language], characters_of([f" {text} " for text in texts])
    counts = np.maximum(characters.lengths - order + 1, 0)
    starts = np.flatnonzero(characters.positions() < characters.spread(counts))
    hashes = np.zeros(len(starts), np.uint64)
    for place in range(order):
        hashes = mix(hashes ^ characters.values[starts + place])
    return Ragged.from_lengths(hashes, counts)


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each 64-bit integer (one step of SplitMix64)."""
    increment, first, second = map(np.uint64, _SPLIT_MIX)
    values = values + increment
    values = (values ^ (values >> np.uint64(30))) * first
    values = (values ^ (values >> np.uint64(27))) * second
    return values ^ (values >> np.uint64(31))


def ngram_sets(texts: Sequence[str], language: Language) -> Any:
    """Return the set of n-grams of each text: a sparse matrix (N, B) of zeros and ones, B different n-grams."""
    from scipy.sparse import csr_matrix

    hashes = hash_ngrams(texts, language)
    different, columns = np.unique(hashes.values, return_inverse=True)
    shape = (len(texts), len(different))
    sets = csr_matrix((np.ones(len(columns), np.float32), columns, hashes.offsets), shape)
    sets.sum_duplicates()
    sets.data[:] = 1.0
    return sets


def cosines(first: Any, second: Any) -> NDArray[np.float64]:
    """Return the cosine of each row of `first` (N, B) with the row of `second` (N, B), or with its only row."""
    shared = np.asarray(first.multiply(second).sum(1), np.float64).ravel()
    sizes = np.diff(first.indptr).astype(np.float64) * np.diff(second.indptr)
    return np.asarray(shared / np.sqrt(np.maximum(sizes, 1.0)))
