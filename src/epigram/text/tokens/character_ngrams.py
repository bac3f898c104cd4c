"""Hashed character n-grams of texts, and how similar two texts are by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.ragged import Ragged
from epigram.text.dataset.language import Language
from epigram.text.tokens.characters import characters_of

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
