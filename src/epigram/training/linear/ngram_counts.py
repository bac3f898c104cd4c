"""Numbers of the n-grams of texts as sparse matrices.

The n-grams of characters are counted once for each different spelling of a token. A text has as many of them as a
product of matrices says: its numbers of spellings times the numbers of n-grams in each.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.arrays import Ragged, ranges
from epigram.models.batches import CharacterArrays, Rows, TextBatches
from epigram.nn.layers.ngrams import Counted, character_keys, ngram_keys
from epigram.nn.layers.types import Tokens

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, for the hash of a spelling

Keys = NDArray[np.int64]


class NgramCounts(NamedTuple):
    """Keys (F,) of n-grams, sorted, and how often each of some texts has them, a CSR matrix (N, F)."""

    keys: Keys
    counts: Any


def count_ngrams(texts: TextBatches, rows: Rows, counted: Counted) -> NgramCounts:
    """Return the n-grams of the texts `rows` (N,) that `counted` describes; those of characters come first."""
    from scipy.sparse import hstack

    plain = copy(texts)
    plain.characters = None
    keys, owners = ngram_keys(plain.gather(rows), counted.vocabulary, counted.orders)
    tokens = _summed(keys.numpy(), owners.numpy(), len(rows))
    if counted.spelled is None or texts.characters is None:
        return tokens
    spelled = _count_characters(texts, rows, texts.characters, counted)
    return NgramCounts(
        np.concatenate([spelled.keys, tokens.keys]), hstack([spelled.counts, tokens.counts], format="csr")
    )


def _count_characters(texts: TextBatches, rows: Rows, characters: CharacterArrays, counted: Counted) -> NgramCounts:
    """Return the n-grams of the characters of each token of the texts `rows` (N,)."""
    from scipy.sparse import csr_matrix

    assert counted.spelled is not None
    own = texts.token_places(rows)
    if not len(own.values):
        return NgramCounts(np.zeros(0, np.int64), csr_matrix((len(rows), 0)))
    first, spelling = distinct_spellings(characters, own.values)
    index = torch.from_numpy(first)[:, None]
    inside = torch.ones_like(index, dtype=torch.bool)
    alone = Tokens(torch.zeros_like(index), inside, characters=characters.gather(index, inside))
    keys, owners = character_keys(alone, counted.alphabet, counted.spelled)
    of_spellings = _summed(keys.numpy(), owners.numpy(), len(first))
    occurrences = csr_matrix((np.ones(len(spelling)), spelling, own.offsets), shape=(len(rows), len(first)))
    counts = (occurrences @ of_spellings.counts).tocsr()
    counts.sort_indices()
    return NgramCounts(of_spellings.keys, counts)


def distinct_spellings(characters: CharacterArrays, tokens: Rows) -> tuple[Rows, Rows]:
    """Return a token of each different spelling (U,), and the number of the spelling of each of the `tokens` (K,).

    Spellings are grouped by a hash. If two of them share a hash, each token is a spelling of its own, which is slower.
    """
    offsets = characters.offsets.numpy()
    places = ranges(offsets[tokens], offsets[tokens + 1] - offsets[tokens])
    letters = places.with_values(characters.characters.numpy()[places.values])
    _, first, spelling = np.unique(_hashes(letters), return_index=True, return_inverse=True)
    lengths = letters.lengths
    same = lengths == lengths[first][spelling]
    if not same.all() or not np.array_equal(letters[first[spelling]].values, letters.values):
        return tokens, np.arange(len(tokens))
    return tokens[first], spelling


def _hashes(letters: Ragged[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row: the sum of its letters, each times a power of MULTIPLIER for its position."""
    most = int(letters.lengths.max(initial=0))
    powers = np.cumprod(np.full(most, MULTIPLIER))
    terms = (letters.values.astype(np.uint64) + np.uint64(1)) * powers[letters.positions()]
    totals = np.zeros(len(terms) + 1, np.uint64)
    np.cumsum(terms, out=totals[1:])
    return np.asarray(totals[letters.offsets[1:]] - totals[letters.offsets[:-1]])


def _summed(keys: Keys, rows: Rows, count: int) -> NgramCounts:
    """Return how often each of `count` rows has each key, from the key and the row of every n-gram, (K,) each."""
    from scipy.sparse import csr_matrix

    found, column = np.unique(keys, return_inverse=True)
    counts = csr_matrix((np.ones(len(keys)), (rows, column)), shape=(count, len(found)))
    counts.sum_duplicates()
    return NgramCounts(found, counts)
