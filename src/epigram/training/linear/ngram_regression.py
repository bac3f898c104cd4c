"""Fit of the head `linear_ngrams` on a frozen encoder: linear SVMs on encodings beside TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import Predicted, gold_labels
from epigram.nn.heads.linear_ngrams import LinearNgramsHead
from epigram.training.fitters import FitOptions, pool
from epigram.training.frozen.known_encodings import Encodings, Floats
from epigram.training.linear.label_prior import is_worth, prior_weights
from epigram.training.linear.row_space import deviations, from_row_space, in_row_space
from epigram.training.linear.svm import SvmOptions, fit_scale, fit_svms, scaled

SCALES = (1.0, 0.5, 2.0, 4.0)  # scales of the encodings, beside TF-IDF vectors of unit length
PENALTIES = (1.0, 0.25, 4.0)  # C of liblinear
STRENGTHS = (1.0, 2.0, 4.0, 8.0)  # margins that the prior gives to a text as similar as possible to a name


class NgramChoice(NamedTuple):
    """Settings of the SVMs: scale of the encodings, C, and the factor that turns margins into logits.

    `strength` is the weight of the prior by the names of the labels, which is added to the margins.
    """

    scale: float
    penalty: float
    factor: float = 1.0
    strength: float = 0.0


class NgramProblem:
    """SVMs on the encodings of some texts beside their TF-IDF, judged on held-out texts if there are any.

    The encodings are standardized, with about unit length, by the mean and the standard deviation over `train`. The
    head gets the document frequencies of `train`.
    """

    def __init__(
        self,
        model: NeuralClassifier,
        train: TextBatches,
        dev: TextBatches | None,
        encodings: Encodings,
        options: FitOptions,
    ) -> None:
        head, (x, held_out, names) = model.head, encodings
        assert isinstance(head, LinearNgramsHead)
        self.mean, self.spread = x.mean(0), deviations(x) * np.sqrt(x.shape[1])
        self.known = set_idf(head, train)
        self.classes, self.multi, self.options = head.out.out_features, model.multi, options
        self.train = self._features(head, train, x)
        self.prior = (
            None
            if names is None
            else self.spread[:, None] * prior_weights(names, x, self.train.labels, model.encoder.width)
        )
        if dev is not None and held_out is not None:
            self.held_out = self._features(head, dev, held_out)
        self._solutions: dict[tuple[float, float], tuple[Floats, Floats]] = {}

    def _features(self, head: LinearNgramsHead, texts: TextBatches, x: Floats) -> Features:
        ngrams = ngram_matrix(head, texts)[:, self.known]
        return Features((x - self.mean) / self.spread, ngrams, gold_labels(texts))

    def choose(self, problems: Sequence[NgramProblem]) -> NgramChoice:
        """Return the settings with the lowest loss on the held-out texts of all `problems` together.

        First the scale is chosen at the first penalty, then the penalty, both without the prior, then its strength with
        any of the tried ones, if the prior is worth it.
        """
        wanted = np.concatenate([each.held_out.labels for each in problems])

        def judge(choice: NgramChoice) -> tuple[float, NgramChoice]:
            margins = pool([each.predicted(choice) for each in problems])
            factor = fit_scale(margins, wanted)
            return scaled(margins, factor).loss(wanted), choice._replace(factor=factor)

        tried = [NgramChoice(scale, PENALTIES[0]) for scale in SCALES]
        found = [judge(choice) for choice in tried]
        scale = min(found, key=lambda each: each[0])[1].scale
        tried += [NgramChoice(scale, penalty) for penalty in PENALTIES[1:]]
        found += [judge(choice) for choice in tried[len(found) :]]
        plain = min(found, key=lambda each: each[0])[1]
        if self.prior is None:
            return plain
        more = [judge(choice._replace(strength=strength)) for choice in tried for strength in STRENGTHS]
        with_prior = min(more, key=lambda each: each[0])[1]
        one, other = (pool([each.predicted(choice) for each in problems]) for choice in (with_prior, plain))
        return with_prior if is_worth(one, other, wanted, self.options.metric) else plain

    def predicted(self, choice: NgramChoice) -> Predicted:
        """Return the predictions for the held-out texts."""
        weight, bias = self.solution(choice)
        margins = np.asarray(self.held_out.beside(choice.scale) @ weight + bias, dtype=np.float32)
        if self.prior is not None and choice.strength > 0.0:
            margins += np.float32(choice.strength) * (self.held_out.encodings @ self.prior).astype(np.float32)
        return Predicted(margins * np.float32(choice.factor), None, self.multi)

    def solution(self, choice: NgramChoice) -> tuple[Floats, Floats]:
        """Return weights (D + F, C) and biases (C,) of margins, for encodings times the scale beside F n-grams."""
        key = choice.scale, choice.penalty
        if key not in self._solutions:
            svm = SvmOptions(choice.penalty, self.options.seed, self.options.config.class_weight)
            (coordinates, basis), labels = self._row_space, self.train.labels
            beside = self.train._replace(encodings=coordinates).beside(choice.scale)
            weight, bias = fit_svms(beside, labels, self.classes, svm)
            dense, sparse = np.split(weight, [coordinates.shape[1]])
            self._solutions[key] = np.vstack([from_row_space(dense, basis), sparse]), bias
        return self._solutions[key]

    @cached_property
    def _row_space(self) -> tuple[Floats, Floats | None]:
        return in_row_space(self.train.encodings)

    def install(self, model: NeuralClassifier, choice: NgramChoice) -> None:
        """Set the weights of the head of `model`, which contain the standardization."""
        head, (weight, bias), width = cast(LinearNgramsHead, model.head), self.solution(choice), len(self.mean)
        weight, bias = weight * choice.factor, bias * choice.factor
        dense = choice.scale * weight[:width]
        if self.prior is not None and choice.strength > 0.0:
            dense = dense + choice.factor * choice.strength * self.prior
        dense = dense / self.spread[:, None]
        with torch.no_grad():
            head.out.weight.copy_(torch.from_numpy(dense.T))
            head.out.bias.copy_(torch.from_numpy(bias - self.mean @ dense))
            head.ngrams.weight.zero_()
            head.ngrams.weight[torch.from_numpy(self.known)] = torch.from_numpy(weight[width:]).to(head.ngrams.weight)


class Features(NamedTuple):
    """Standardized encodings (N, D) of about unit length, TF-IDF (N, F) and labels (N,) or (N, C)."""

    encodings: Floats
    ngrams: Any  # csr_matrix
    labels: NDArray[np.integer]

    def beside(self, scale: float) -> Any:
        """Return the encodings times `scale` beside the TF-IDF vectors, (N, D + F) as a sparse matrix."""
        return hstack([csr_matrix(scale * self.encodings), self.ngrams]).tocsr()


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
