"""Near duplicates with different labels, found by MinHash.

Broder, On the Resemblance and Containment of Documents, 1997.
The memory is bounded: texts are hashed in blocks, and in a bucket of similar texts each is compared with its next
neighbours only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Floats, Ints
from epigram.text.dataset.language import Language
from epigram.text.tokens.characters import cosines, hash_ngrams, mix, ngram_sets

BANDS, BAND_ROWS = 12, 4  # two texts with a Jaccard similarity of 0.75 share a band with a probability of 0.99
NEIGHBOURS = 10  # texts of a bucket that each text is compared with
ESTIMATE_ERROR = 0.3  # bound for a Jaccard similarity by signatures: over four standard deviations
BLOCK = 512  # texts that are hashed at once
PAIRS = 20_000  # pairs that are compared at once


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of rows with similar texts and different labels, the most similar first; each array is (P,)."""

    first: Ints
    second: Ints
    similarity: Floats


def find_near_duplicates(
    texts: Sequence[str], labels: Ints, language: Language, *, similarity: float
) -> NearDuplicates:
    """Return the pairs of different labels (N,) whose texts have a cosine of at least `similarity`.

    The cosine compares the sets of character n-grams. Pairs with a cosine above 0.85 are found with a probability of
    0.98 or more.
    """
    signature = signatures(texts, language)
    pairs = _candidates(signature, labels)
    pairs = pairs[_estimate(signature, pairs) >= similarity**2 - ESTIMATE_ERROR]  # a cosine s has a Jaccard ≥ s²
    cosine = np.concatenate([np.zeros(0), *_compare(texts, pairs, language)])
    near = cosine >= similarity - 1e-9
    first, second = pairs[near].T
    order = np.lexsort((second, first, -cosine[near]))
    return NearDuplicates(first[order], second[order], cosine[near][order])


def signatures(texts: Sequence[str], language: Language) -> NDArray[np.uint32]:
    """Return the MinHash signature of each text, (N, BANDS * BAND_ROWS); texts without n-grams share one."""
    factors = _upper_half(mix(np.arange(BANDS * BAND_ROWS, dtype=np.uint64))) | np.uint32(1)
    found = np.empty((len(texts), len(factors)), np.uint32)
    for start in range(0, len(texts), BLOCK):
        hashes = hash_ngrams(texts[start : start + BLOCK], language).fill_empty(0)
        values = _upper_half(hashes.values)
        for place, factor in enumerate(factors):
            found[start : start + BLOCK, place] = np.minimum.reduceat(values * factor, hashes.starts)
    return found


def _upper_half(values: NDArray[np.uint64]) -> NDArray[np.uint32]:
    return (values >> np.uint64(32)).astype(np.uint32)


def _candidates(signature: NDArray[np.uint32], labels: Ints) -> Ints:
    """Return the pairs of rows (P, 2) with different labels that share a band, each once, in ascending order."""
    found = [np.zeros((0, 2), np.int64)]
    for band in np.split(signature, BANDS, axis=1):
        keys = band[:, 0].astype(np.uint64)
        for column in band[:, 1:].T:
            keys = mix(keys ^ column)
        order = np.argsort(keys, kind="stable")
        found += [np.sort(pair, axis=1) for pair in _neighbours(keys[order], order, labels)]
    return np.unique(np.concatenate(found), axis=0)


def _estimate(signature: NDArray[np.uint32], pairs: Ints) -> Floats:
    """Return the estimated Jaccard similarity of each pair (P,)."""
    blocks = (pairs[start : start + PAIRS].T for start in range(0, len(pairs), PAIRS))
    return np.concatenate([np.zeros(0), *((signature[one] == signature[other]).mean(1) for one, other in blocks)])


def _neighbours(keys: NDArray[np.uint64], order: Ints, labels: Ints) -> Iterator[Ints]:
    """Yield the pairs with equal keys and different labels, (P, 2), for each distance in the sorted order."""
    for distance in range(1, min(NEIGHBOURS + 1, len(order))):
        same = keys[distance:] == keys[:-distance]
        if not same.any():
            return
        pairs = np.stack([order[:-distance][same], order[distance:][same]], axis=1)
        yield pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]]


def _compare(texts: Sequence[str], pairs: Ints, language: Language) -> Iterator[Any]:
    """Yield the cosines of some pairs at a time."""
    for start in range(0, len(pairs), PAIRS):
        rows, places = np.unique(pairs[start : start + PAIRS], return_inverse=True)
        sets = ngram_sets([texts[row] for row in rows.tolist()], language)
        first, second = places.reshape(-1, 2).T
        yield cosines(sets[first], sets[second])
