"""TF-IDF features of texts for a linear SVM: counts of n-grams, n-grams to keep, and the sparse matrix of their values.

The n-grams of characters are counted once for each different spelling of a token. A text has as many of them as a
product of matrices says: its numbers of spellings times the numbers of n-grams in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.arrays import Ragged, ranges
from epigram.core.errors import ParameterError
from epigram.models.batches import CharacterArrays, Rows, TextBatches
from epigram.models.linear_svm import LinearSvm
from epigram.nn.layers.ngrams import Counted, character_keys, ngram_keys
from epigram.nn.layers.types import Tokens

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, for the hash of a spelling

Keys = NDArray[np.int64]


class NgramCounts(NamedTuple):
    """Keys (F,) of n-grams, sorted, and how often each of some texts has them, a CSR matrix (N, F)."""

    keys: Keys
    counts: Any


def count_ngrams(texts: TextBatches, rows: Rows, counted: Counted) -> NgramCounts:
    """Return the n-grams of the texts `rows` (N,) that `counted` describes; character n-grams come first."""
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


BLAS_BYTES = 160 << 20  # bytes of address space for OpenBLAS's code and buffers
BATCH = 1024, 262_144  # maximum texts and tokens

Parts = list[tuple[Rows, NgramCounts]]  # the texts of a batch, and their n-grams


def fit_features(model: LinearSvm, train: TextBatches) -> Any:
    """Count the n-grams of `train`, set the model's keys and frequencies, and return the features of `train`.

    The model has no weights then. Raises ParameterError for settings that leave no n-gram.
    """
    load_blas()
    parts = _count(model, train)
    keys, idf = _weigh(model, [part for _, part in parts], len(train))
    model.install(keys, idf, torch.zeros(0, model.classes))
    return _features(model, parts, len(train))


def feature_matrix(model: LinearSvm, texts: TextBatches) -> Any:
    """Return the TF-IDF values of `texts` as a sparse matrix (N, F) in float64."""
    load_blas()
    return _features(model, _count(model, texts), len(texts))


def load_blas() -> None:
    """Load SciPy's linear algebra; raise OSError if memory is too low, because OpenBLAS would then retry forever."""
    mmap(-1, BLAS_BYTES).close()
    import scipy.linalg  # noqa: F401


def _count(model: LinearSvm, texts: TextBatches) -> Parts:
    return [(rows, count_ngrams(texts, rows, model.counted)) for rows in texts.in_order(*BATCH)]


def _features(model: LinearSvm, parts: Parts, texts: int) -> Any:
    """Return the TF-IDF values (N, F) of the n-grams that the model knows, as `LinearSvm.features` has them."""
    from scipy.sparse import csr_matrix, vstack

    known, order = model.keys.numpy(), np.concatenate([rows for rows, _ in parts])
    found = []
    for _, (keys, counts) in parts:
        place = np.searchsorted(known, keys)
        is_known = known[np.minimum(place, len(known) - 1)] == keys
        kept = is_known[counts.indices]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[counts.indptr]
        columns = place[counts.indices[kept]]
        of_text = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        known_counts = (torch.from_numpy(each) for each in (of_text, columns, counts.data[kept]))
        values = model.values(len(ends) - 1, *known_counts).double().numpy()
        found.append(csr_matrix((values, columns, ends), shape=(len(ends) - 1, len(known))))
    matrix, place = vstack(found, format="csr"), np.empty(texts, np.int64)
    place[order] = np.arange(texts)
    return matrix[place]


def _weigh(model: LinearSvm, parts: Sequence[NgramCounts], texts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the n-grams to keep, sorted, and their smoothed inverse document frequency."""
    keys, inverse = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
    counts = np.concatenate([np.bincount(part.counts.indices, minlength=len(part.keys)) for part in parts])
    in_texts = np.bincount(inverse, counts, minlength=len(keys)).astype(np.int64)
    kept, rows = _kept(model, torch.from_numpy(keys), torch.from_numpy(in_texts))
    return kept, (torch.log((1 + texts) / (1 + rows.double())) + 1).float()


def _kept(model: LinearSvm, keys: torch.Tensor, counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the n-grams and counts that the settings keep."""
    config, (lowest, highest) = model.config, model.counted.orders
    if not len(keys):
        raise ParameterError(
            f"model.orders is {list(range(lowest, highest + 1))}, but no training text has {lowest} tokens"
        )
    kept = counts >= config.min_rows
    if not kept.any():
        raise ParameterError(f"model.min_rows is {config.min_rows}, but no n-gram occurs in that many training texts")
    keys, counts = keys[kept], counts[kept]
    if len(keys) > config.features:
        top = torch.argsort(counts, descending=True, stable=True)[: config.features].sort().values
        keys, counts = keys[top], counts[top]
    return keys, counts
