"""TF-IDF features of texts for a linear SVM: the n-grams to keep, and the sparse matrix of their values."""

from __future__ import annotations

from mmap import mmap
from typing import Any

import numpy as np
import torch

from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvm
from epigram.nn.layers.ngrams import counted_keys

BLAS_BYTES = 160 << 20  # bytes of address space for OpenBLAS's code and buffers
BATCH = 1024, 262_144  # maximum texts and tokens


def fit_features(model: LinearSvm, train: TextBatches) -> Any:
    """Count the n-grams of `train`, set the model's keys and frequencies, and return the features of `train`.

    The weights of the model are 0. Raises ParameterError for settings that leave no n-gram.
    """
    keys, idf = _count_ngrams(model, train)
    model.install(keys, idf, torch.zeros(len(keys), model.classes))
    return feature_matrix(model, train)


def feature_matrix(model: LinearSvm, texts: TextBatches) -> Any:
    """Return the TF-IDF values of `texts` as a sparse matrix (N, F) in float64."""
    load_blas()
    from scipy.sparse import csr_matrix

    rows, columns, values = [], [], []
    for batch in texts.in_order(*BATCH):
        row, column, value = model.features(texts.gather(batch))
        rows.append(batch[row.numpy()])
        columns.append(column.numpy())
        values.append(value.double().numpy())
    place = np.concatenate(rows), np.concatenate(columns)
    return csr_matrix((np.concatenate(values), place), shape=(len(texts), len(model.keys)))


def load_blas() -> None:
    """Load SciPy's linear algebra; raise OSError if memory is too low, because OpenBLAS would then retry forever."""
    mmap(-1, BLAS_BYTES).close()
    import scipy.linalg  # noqa: F401


def _count_ngrams(model: LinearSvm, train: TextBatches) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the n-grams to keep, sorted, and their smoothed inverse document frequency."""
    pieces = []
    for batch in train.in_order(*BATCH):
        keys, rows = counted_keys(train.gather(batch), model.counted)
        rows, order = torch.sort(rows, stable=True)  # two stable sorts: by key, and by row within a key
        keys, by_key = torch.sort(keys[order], stable=True)
        rows = rows[by_key]
        first = torch.ones_like(keys, dtype=torch.bool)
        first[1:] = (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])  # each key once per row
        pieces.append(torch.unique_consecutive(keys[first], return_counts=True))
    keys, inverse = torch.unique(torch.cat([k for k, _ in pieces]), return_inverse=True)
    counts = torch.zeros(len(keys), dtype=torch.int64).index_add_(0, inverse, torch.cat([c for _, c in pieces]))
    keys, counts = _kept(model, keys, counts)
    return keys, (torch.log((1 + len(train)) / (1 + counts.double())) + 1).float()


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
