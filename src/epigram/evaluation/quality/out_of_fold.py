"""Out-of-fold predictions of linear SVMs on TF-IDF, with all and with fewer of the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from epigram.evaluation.arrays import Bools, Floats, Ints
from epigram.evaluation.tuning.temperature import fit_temperature, from_logits

MAX_FEATURES = 1 << 16
MAX_WEIGHTS = 1 << 22  # features times labels
ABSENT = -2.0  # margin of a label that the training rows lack; the target of a wrong label is -1


@dataclass(frozen=True)
class OutOfFold:
    """Predictions of N rows by models that were trained on the other folds.

    `probabilities` (N, C) are of trainings on all rows of the other folds, calibrated by one temperature. `wrong`
    (S, N) marks the rows that a training on a share of them predicts wrongly; `sizes` (S,) is the number of rows of
    that share, averaged over the folds.
    """

    probabilities: Floats
    sizes: Floats
    wrong: Bools


def text_features(texts: Sequence[str], language: Literal["zh", "en"], labels: int) -> Any:
    """Return the TF-IDF rows (N, F) of the texts: words and pairs of words, or one to three Chinese characters.

    The inverse document frequencies are of all texts; they use no label.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    units = {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\w+|[^\w\s]"}
    if language == "zh":
        units = {"analyzer": "char", "ngram_range": (1, 3)}
    most = min(MAX_FEATURES, max(1, MAX_WEIGHTS // labels))
    return TfidfVectorizer(**units, sublinear_tf=True, max_features=most).fit_transform(texts)


def predict_out_of_fold(
    features: Any, labels: Ints, folds: Ints, shares: Sequence[float], *, classes: int, seed: int = 0
) -> OutOfFold:
    """Return the predictions for `features` (N, F) with `labels` (N,); fold k is predicted from all other folds.

    `shares` are ascending and end with 1. The rows of a share are stratified and are part of every larger share; each
    share has every label.
    """
    count = int(folds.max()) + 1
    margins = np.full((len(labels), classes), ABSENT)
    wrong, sizes = np.zeros((len(shares), len(labels)), np.bool_), np.zeros((len(shares), count))
    for fold in range(count):
        held_out, train = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        train = train[stratified_order(labels[train], np.random.default_rng([seed, fold]))]
        for place, share in enumerate(shares):
            rows = train[: round(share * len(train))]
            present = np.unique(labels[rows])
            margins[np.ix_(held_out, present)] = _margins(features[rows], labels[rows], features[held_out], seed)
            wrong[place, held_out] = margins[held_out].argmax(1) != labels[held_out]
            sizes[place, fold] = len(rows)
    return OutOfFold(_calibrate(margins, labels), sizes.mean(1), wrong)


def stratified_order(labels: Ints, generator: np.random.Generator) -> Ints:
    """Return a random order of N rows whose beginnings have the labels in proportion, after one row of each label."""
    shuffled = generator.permutation(len(labels))
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = np.bincount(labels)
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)  # place among the rows of its label
    rank = np.where(place == 0, -1.0, (place + 0.5) / np.repeat(counts, counts))
    return by_label[np.argsort(rank, kind="stable")]


def _margins(features: Any, labels: Ints, held_out: Any, seed: int) -> Floats:
    """Return the margins (n, P) of the rows `held_out` for the P different `labels`, at least two."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = LinearSVC(random_state=seed).fit(features, labels).decision_function(held_out)
    return np.stack([-found, found], axis=1) if found.ndim == 1 else np.asarray(found)


def _calibrate(margins: Floats, labels: Ints) -> Floats:
    """Return the probabilities (N, C): the softmax of the margins, with the temperature of the smallest loss."""
    gold = labels[:, None] == np.arange(margins.shape[1])
    return from_logits(margins / fit_temperature(margins, gold, multi=False), multi=False)
