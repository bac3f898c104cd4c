"""Fit of the head `linear_ngrams` on a frozen encoder: linear SVMs on encodings beside TF-IDF."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from epigram.models.batches import TextBatches
from epigram.models.classifier import Classifier
from epigram.models.predict import Predicted, gold_labels
from epigram.nn.heads.linear_ngrams import LinearNgramsHead
from epigram.training.fitters.linear_svm import SvmOptions, fit_scale, fit_svms
from epigram.training.trained import FitOptions

SCALES = (1.0, 0.5, 2.0, 4.0)  # of the encodings, beside TF-IDF vectors of unit length
PENALTIES = (1.0, 0.25, 4.0)  # C of liblinear

Floats = NDArray[np.floating[Any]]


class Solution(NamedTuple):
    """Weights (D + F, C) and biases (C,) of logits for encodings times `scale` beside F n-grams."""

    scale: float
    weight: Floats
    bias: Floats


class Features(NamedTuple):
    """Standardized encodings (N, D) of about unit length, TF-IDF (N, F) and labels (N,) or (N, C)."""

    encodings: Floats
    ngrams: Any  # csr_matrix
    labels: NDArray[np.integer]

    def beside(self, scale: float) -> Any:
        """Return the encodings times `scale` beside the TF-IDF vectors, (N, D + F) as a sparse matrix."""
        return hstack([csr_matrix(scale * self.encodings), self.ngrams]).tocsr()


def fit_ngrams(
    model: Classifier, train: TextBatches, dev: TextBatches, encodings: tuple[Floats, Floats], options: FitOptions
) -> None:
    """Set the weights of the head; `encodings` are those of train and dev, (N, D) each.

    Scale and penalty have the lowest loss on dev: first the scale at the first penalty, then the penalty.
    """
    head = model.head
    assert isinstance(head, LinearNgramsHead)
    mean, spread = encodings[0].mean(0), encodings[0].std(0) * np.sqrt(encodings[0].shape[1])
    spread[spread == 0.0] = 1.0  # a constant feature
    known = set_idf(head, train)
    fitted_on, held_out = (
        Features((x - mean) / spread, ngram_matrix(head, texts)[:, known], gold_labels(texts))
        for x, texts in zip(encodings, (train, dev), strict=True)
    )
    svm = SvmOptions(PENALTIES[0], options.seed, options.config.class_weight)
    best = _best(fitted_on, held_out, head.out.out_features, svm, multi=model.multi)
    width = len(mean)
    dense = best.scale * best.weight[:width] / spread[:, None]
    with torch.no_grad():
        head.out.weight.copy_(torch.from_numpy(dense.T))
        head.out.bias.copy_(torch.from_numpy(best.bias - mean @ dense))
        head.ngrams.weight.zero_()
        head.ngrams.weight[torch.from_numpy(known)] = torch.from_numpy(best.weight[width:]).to(head.ngrams.weight)


def _best(train: Features, dev: Features, classes: int, options: SvmOptions, *, multi: bool) -> Solution:
    def solve(scale: float, penalty: float) -> tuple[float, Solution]:
        weight, bias = fit_svms(train.beside(scale), train.labels, classes, options._replace(penalty=penalty))
        margins = np.asarray(dev.beside(scale) @ weight + bias, dtype=np.float32)
        factor = fit_scale(Predicted(margins, None, multi), dev.labels)
        loss = Predicted(margins * np.float32(factor), None, multi).loss(dev.labels)
        return loss, Solution(scale, weight * factor, bias * factor)

    found = [solve(scale, PENALTIES[0]) for scale in SCALES]
    scale = min(found, key=lambda each: each[0])[1].scale
    found += [solve(scale, penalty) for penalty in PENALTIES[1:]]
    return min(found, key=lambda each: each[0])[1]


def set_idf(head: LinearNgramsHead, texts: TextBatches) -> NDArray[np.int64]:
    """Set the head's smoothed inverse document frequencies, and return the buckets (F,) that occur in `texts`.

    An n-gram in another bucket has the frequency 0, so that it does not count.
    """
    rows, buckets, _ = _entries(head, texts)
    pairs = np.unique(rows * (head.buckets + 1) + buckets)
    count = np.bincount(pairs % (head.buckets + 1), minlength=head.buckets + 1)
    count[head.buckets] = 0
    idf = np.where(count > 0, np.log((1 + len(texts)) / (1 + count)) + 1, 0.0)
    head.idf.copy_(torch.from_numpy(idf))
    return np.flatnonzero(count)


def ngram_matrix(head: LinearNgramsHead, texts: TextBatches) -> Any:
    """Return the TF-IDF values of `texts` as a sparse matrix (N, buckets + 1)."""
    rows, buckets, values = _entries(head, texts)
    return csr_matrix((values, (rows, buckets)), shape=(len(texts), head.buckets + 1))


@torch.inference_mode()
def _entries(head: LinearNgramsHead, texts: TextBatches) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return row, bucket and TF-IDF value of every n-gram of `texts`, padding included, (E,) each."""
    found = []
    for batch in texts.in_order(256, 16_384):
        buckets, values = (part.cpu().numpy() for part in head.features(texts.gather(batch)))
        found.append((np.repeat(batch, buckets.shape[1]), buckets.ravel(), values.ravel().astype(float)))
    rows, all_buckets, all_values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, all_buckets, all_values
