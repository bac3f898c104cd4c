"""Fit of the TF-IDF + linear SVM baseline."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.linear_svm import LinearSvm, LinearSvmConfig
from epigram.models.predict import Predicted, gold_labels, predict
from epigram.nn.layers.ngrams import ngram_keys
from epigram.training import fitters
from epigram.training.config import ClassWeight
from epigram.training.trained import FitOptions, Fold, FoldResults, Trained, closed_form, pool

BLAS_BYTES = 160 << 20  # bytes of address space for OpenBLAS's code and buffers


class SvmOptions(NamedTuple):
    """Options of a liblinear fit: C, the seed of its order, and the weight of the classes."""

    penalty: float
    seed: int
    class_weight: ClassWeight


@fitters.register("linear_svm")
def fit_model(model: LinearSvm, train: TextBatches, dev: TextBatches | None, options: FitOptions) -> Trained:
    """Fit the model on the CPU. Raises ParameterError for settings that leave no n-gram."""
    _fit_weights(model, train, options)
    if (scale := options.choice) is None:
        assert dev is not None
        scale = fit_scale(predict(model, dev), gold_labels(dev))
    model.scale.fill_(scale)
    return closed_form(model, dev)


@fitters.register_on_folds("linear_svm")
def fit_folds(folds: Iterable[Fold]) -> FoldResults:
    """Fit an SVM for each fold, and choose one scale for the margins of all folds."""
    margins, labels = [], []
    for fold in folds:
        model, train, dev = fold.load()
        _fit_weights(model, train, fold.options)
        margins.append(predict(model, dev))
        labels.append(gold_labels(dev))
    scale = fit_scale(pool(margins), np.concatenate(labels))
    scaled = [replace(each, logits=each.logits * np.float32(scale)) for each in margins]
    return FoldResults(choice=scale, predictions=scaled)


def _fit_weights(model: LinearSvm, train: TextBatches, options: FitOptions) -> None:
    try:
        fit_weights(model, train, seed=options.seed, class_weight=options.config.class_weight)
    except ParameterError as error:
        raise ParameterError(f"params.yaml: {options.path}.{error}") from None


def fit(
    model: LinearSvm, train: TextBatches, dev: TextBatches, *, seed: int, class_weight: ClassWeight = "none"
) -> None:
    """Fit the weights, and the scale that turns margins into logits: the one with the lowest loss on `dev`.

    Model and texts are on the CPU. Raises ParameterError for settings that leave no n-gram.
    """
    fit_weights(model, train, seed=seed, class_weight=class_weight)
    model.scale.fill_(fit_scale(predict(model, dev), gold_labels(dev)))


def fit_weights(model: LinearSvm, train: TextBatches, *, seed: int, class_weight: ClassWeight = "none") -> None:
    """Count n-grams and fit the SVM with liblinear; the scale is 1.

    Raises ParameterError for settings that leave no n-gram.
    """
    _load_blas()
    from scipy.sparse import csr_matrix

    config = model.config
    keys, idf = _count_ngrams(model, train, config)
    model.install(keys, idf, torch.zeros(len(keys), model.classes))
    rows, columns, values = _feature_matrix(model, train)
    x = csr_matrix((values, (rows, columns)), shape=(len(train), len(keys)))
    weight, bias = fit_svms(x, gold_labels(train), model.classes, SvmOptions(config.penalty, seed, class_weight))
    model.install(keys, idf, torch.from_numpy(weight), torch.from_numpy(bias))


def _load_blas() -> None:
    """Load SciPy's linear algebra; raise OSError if memory is too low, because OpenBLAS would then retry forever."""
    mmap(-1, BLAS_BYTES).close()
    import scipy.linalg  # noqa: F401


def _count_ngrams(model: LinearSvm, train: TextBatches, config: LinearSvmConfig) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the n-grams to keep, sorted, and their smoothed inverse document frequency."""
    pieces = []
    for batch in train.in_order(1024, 262_144):
        keys, rows = ngram_keys(train.gather(batch), model.vocabulary, model.orders)
        rows, order = torch.sort(rows, stable=True)  # two stable sorts: by key, and by row within a key
        keys, by_key = torch.sort(keys[order], stable=True)
        rows = rows[by_key]
        first = torch.ones_like(keys, dtype=torch.bool)
        first[1:] = (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])  # each key once per row
        pieces.append(torch.unique_consecutive(keys[first], return_counts=True))
    keys, inverse = torch.unique(torch.cat([k for k, _ in pieces]), return_inverse=True)
    counts = torch.zeros(len(keys), dtype=torch.int64).index_add_(0, inverse, torch.cat([c for _, c in pieces]))
    if not len(keys):
        raise ParameterError(f"model.orders is {config.orders}, but no training text has {config.orders[0]} tokens")
    kept = counts >= config.min_rows
    if not kept.any():
        raise ParameterError(f"model.min_rows is {config.min_rows}, but no n-gram occurs in that many training texts")
    keys, counts = keys[kept], counts[kept]
    if len(keys) > config.features:
        top = torch.argsort(counts, descending=True, stable=True)[: config.features].sort().values
        keys, counts = keys[top], counts[top]
    return keys, (torch.log((1 + len(train)) / (1 + counts.double())) + 1).float()


def _feature_matrix(
    model: LinearSvm, train: TextBatches
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    rows, columns, values = [], [], []
    for batch in train.in_order(1024, 262_144):
        row, column, value = model.features(train.gather(batch))
        rows.append(batch[row.numpy()])
        columns.append(column.numpy())
        values.append(value.double().numpy())
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def fit_svms(x: Any, labels: NDArray[np.integer], classes: int, options: SvmOptions) -> tuple[Any, Any]:
    """Return weights (F, C) and biases (C,) of one-vs-rest SVMs for class indices (N,) or indicators (N, C)."""
    if labels.ndim == 1:
        return _fit_single_label(x, labels, classes, options)
    columns = [_fit_svm(x, column, options) for column in labels.T]
    return np.hstack([weight for weight, _ in columns]), np.concatenate([bias for _, bias in columns])


def _fit_single_label(
    x: Any, labels: NDArray[np.integer], classes: int, options: SvmOptions
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weights (F, C) and biases (C,) for class indices (N,); a class without rows gets only a bias."""
    present, codes = np.unique(labels, return_inverse=True)
    weight, bias = _fit_svm(x, codes, options)
    if len(present) == 2:  # liblinear returns one margin for two classes
        weight, bias = np.hstack([-weight, weight]), np.concatenate([-bias, bias])
    weights, biases = np.zeros((x.shape[1], classes)), np.full(classes, -1.0)
    weights[:, present], biases[present] = weight, bias if len(present) > 1 else 1.0
    return weights, biases


def _fit_svm(x: Any, labels: NDArray[np.integer], options: SvmOptions) -> tuple[Any, Any]:
    """Return weights (F, M) and biases (M,) of one liblinear fit; a label of all or no rows gets only a bias."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    if len(np.unique(labels)) == 1:
        return np.zeros((x.shape[1], 1)), np.array([1.0 if labels[0] else -1.0])
    svm = LinearSVC(
        C=options.penalty,
        random_state=options.seed,
        class_weight=None if options.class_weight == "none" else "balanced",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(x, labels)
    return svm.coef_.T, svm.intercept_


def fit_scale(margins: Predicted, labels: NDArray[np.integer]) -> float:
    """Return the scale of the margins with the lowest negative log-likelihood, by a search over a log grid."""
    grid = np.geomspace(0.1, 30.0, 120)
    losses = [Predicted(margins.logits * np.float32(scale), None, margins.multi).loss(labels) for scale in grid]
    return float(grid[int(np.argmin(losses))])
