"""Fitting the TF-IDF + linear SVM baseline."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from pithy.layers.ngrams import ngram_keys
from pithy.systems.linear_svm import LinearSvm, LinearSvmConfig
from pithy.training.batches import TextBatches
from pithy.training.predict import predict


def fit(model: LinearSvm, train: TextBatches, dev: TextBatches, config: LinearSvmConfig, *, seed: int) -> None:
    """Count n-grams, fit the machine by liblinear, and fit the one scale that turns margins into probabilities.

    The scale minimises the negative log-likelihood of `dev`.
    """
    from scipy.sparse import csr_matrix
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    keys, idf = _features(model, train, config)
    model.install(keys, idf, torch.zeros(len(keys), model.classes))
    rows, columns, values = _matrix(model, train)
    x = csr_matrix((values, (rows, columns)), shape=(len(train), len(keys)))
    machine = LinearSVC(C=config.penalty, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(x, _labels(train))
    weight, bias = machine.coef_.T, machine.intercept_
    if model.classes == 2:  # liblinear gives one margin for two classes
        weight, bias = np.hstack([-weight, weight]), np.concatenate([-bias, bias])
    model.install(keys, idf, torch.from_numpy(weight), torch.from_numpy(bias))
    scale = _scale(predict(model, dev).logits, _labels(dev))
    model.install(keys, idf, torch.from_numpy(weight), torch.from_numpy(bias), scale)


def _labels(texts: TextBatches) -> NDArray[np.int64]:
    return texts.targets(np.arange(len(texts))).cpu().numpy()


def _features(model: LinearSvm, train: TextBatches, config: LinearSvmConfig) -> tuple[torch.Tensor, torch.Tensor]:
    """The n-grams to keep, sorted, and their smoothed inverse document frequency."""
    pieces = []
    for batch in train.in_order(1024, 262_144):
        keys, rows = ngram_keys(train.gather(batch), model.vocabulary, model.orders)
        order = torch.argsort(keys, stable=True)
        pairs = torch.unique(torch.stack([keys[order], rows[order]]), dim=1)[0]  # each key once a row
        pieces.append(torch.unique(pairs, return_counts=True))
    keys, back = torch.unique(torch.cat([k for k, _ in pieces]), return_inverse=True)
    counts = torch.zeros(len(keys), dtype=torch.int64).index_add_(0, back, torch.cat([c for _, c in pieces]))
    kept = counts >= config.min_rows
    keys, counts = keys[kept], counts[kept]
    if len(keys) > config.features:
        top = torch.argsort(counts, descending=True, stable=True)[: config.features].sort().values
        keys, counts = keys[top], counts[top]
    return keys, (torch.log((1 + len(train)) / (1 + counts.double())) + 1).float()


def _matrix(model: LinearSvm, train: TextBatches) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    rows, columns, values = [], [], []
    for batch in train.in_order(1024, 262_144):
        row, column, value = model.features(train.gather(batch))
        rows.append(batch[row.numpy()])
        columns.append(column.numpy())
        values.append(value.double().numpy())
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def _scale(margins: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """The scale of the margins with the least negative log-likelihood, by a search over a log grid."""
    grid = np.geomspace(0.1, 30.0, 120)
    logits = margins[None].astype(np.float64) * grid[:, None, None]  # (G, N, C)
    top = logits.max(-1, keepdims=True)
    norm = np.log(np.exp(logits - top).sum(-1)) + top[..., 0]
    loss = (norm - logits[:, np.arange(len(labels)), labels]).mean(1)
    return float(grid[loss.argmin()])
