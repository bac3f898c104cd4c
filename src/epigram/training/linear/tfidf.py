"""TF-IDF features of texts for a linear SVM: the n-grams to keep, and the sparse matrix of their values."""

from __future__ import annotations

from collections.abc import Sequence
from mmap import mmap
from typing import Any

import numpy as np
import torch

from epigram.core.errors import ParameterError
from epigram.models.batches import Rows, TextBatches
from epigram.models.linear_svm import LinearSvm
from epigram.training.linear.ngram_counts import NgramCounts, count_ngrams

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
