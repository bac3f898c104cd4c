"""Drift detection: new texts against the texts that the champion knows (training and development).

Every measure gives one value per text: its length, its share of unknown tokens, the similarity of its character n-grams
to the training texts, the class that the champion predicts, the probability of that class, and the label if there is
one. The values of the known texts form one histogram, the values of the new texts another. The population
stability index compares the two histograms: Σ (a − e) ln(a / e) over the bins, where a is the share of the new texts in
a bin and e the share of the known texts. A measure has drifted if its index is above the threshold and above what
chance alone gives. Without drift the index is distributed as (1/N + 1/M) χ² with B − 1 degrees of freedom (Yurdakul,
Statistical Properties of Population Stability Index, 2018), so a small number of texts alone does not cause an alarm.

N new texts, M known texts, B bins, F hashed n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epigram.core.arrays import Ragged
from epigram.evaluation.arrays import Floats, Ints
from epigram.text.tokens.characters import characters_of

BINS = 10
MIN_TEXTS_PER_BIN = 10  # known texts per bin; a smaller corpus gets fewer bins
FEATURES = 1 << 12
ORDERS = (1, 2, 3)
BATCH_TEXTS = 512  # texts whose n-grams are counted at once: 16 MB
CHANCE = 0.001  # probability with which the index exceeds `chance_quantile` without drift
MEASURES = {
    "length": "characters of a text",
    "unknown": "share of unknown tokens",
    "likeness": "cosine similarity of a text's n-grams to the mean of the training texts",
    "predicted": "class that the champion predicts",
    "confidence": "probability of that class",
    "label": "label",
}


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Number of texts in each bin (B,): bin b holds the values above edge b − 1 and up to edge b."""

    edges: list[float]  # (B − 1,)
    counts: list[int]


@dataclass(frozen=True, kw_only=True)
class Ngrams:
    """Weight of each n-gram (F,), and mean n-gram vector of the training texts (F,), of unit length."""

    weights: list[float]
    mean: list[float]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Stored statistics of the texts that a champion knows."""

    labels: list[str]
    ngrams: Ngrams
    histograms: dict[str, Histogram]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Index of one measure, and whether the measure has drifted.

    `chance` is the value that the index exceeds by chance in 0.1% of cases.
    """

    name: str
    index: float
    chance: float
    drifted: bool


def fit_ngrams(texts: Sequence[str]) -> Ngrams:
    """Return the n-grams of the training texts, weighted by smoothed inverse document frequency."""
    rows = np.zeros(FEATURES)
    for counts in _ngram_batches(texts):
        rows += (counts > 0).sum(0)
    weights = np.log((1 + len(texts)) / (1 + rows)) + 1
    total = np.zeros(FEATURES)
    for counts in _ngram_batches(texts):
        total += _normalize(counts * weights).sum(0)
    mean = _normalize(total[None])[0]
    return Ngrams(weights=weights.round(4).tolist(), mean=mean.round(6).tolist())


def ngram_similarity(texts: Sequence[str], ngrams: Ngrams) -> Floats:
    """Return the cosine similarity of each text's n-gram vector and the mean vector of the training texts, (N,)."""
    weights, mean = np.array(ngrams.weights), np.array(ngrams.mean)
    return np.concatenate([np.zeros(0), *(_normalize(counts * weights) @ mean for counts in _ngram_batches(texts))])


def unknown_share(ids: Ragged[Any], unknown: int) -> Floats:
    """Return the share of each text's token ids that are `unknown`, (N,)."""
    return np.asarray(ids.with_values(ids.values == unknown).sums() / np.maximum(ids.lengths, 1))


def histogram(values: Floats | Ints) -> Histogram:
    """Return a histogram with about equally many of `values` (M,) per bin: ten bins, or fewer for few values."""
    bins = int(np.clip(len(values) // MIN_TEXTS_PER_BIN, 2, BINS))
    edges = np.unique(np.quantile(values, np.arange(1, bins) / bins)) if len(values) else np.zeros(0)
    return _count_bins(values, edges)


def class_histogram(codes: Ints, count: int) -> Histogram:
    """Return a histogram with one bin per class; codes are 0 … count − 1."""
    return _count_bins(codes, np.arange(count - 1, dtype=float))


def measure(reference: Reference, values: Mapping[str, Floats | Ints], threshold: float) -> list[Measure]:
    """Compare the values of new texts with the reference; the result has the order of `values`."""
    found = []
    for name, new_values in values.items():
        known = reference.histograms[name]
        expected = np.array(known.counts)
        actual = np.array(_count_bins(new_values, np.array(known.edges)).counts)
        index, chance = stability_index(expected, actual), chance_quantile(expected.sum(), actual.sum(), len(expected))
        found.append(Measure(name=name, index=index, chance=chance, drifted=index > threshold and index > chance))
    return found


def stability_index(expected: Ints, actual: Ints) -> float:
    """Return the population stability index of two histograms (B,); 0.5 is added to every bin so that none is empty."""
    e, a = ((counts + 0.5) / (counts.sum() + 0.5 * len(counts)) for counts in (expected, actual))
    return float(((a - e) * np.log(a / e)).sum())


def chance_quantile(known: int, new: int, bins: int) -> float:
    """Return the value that the index exceeds with probability 0.001 without drift; infinity without texts or bins."""
    from scipy.special import chdtri  # the inverse of χ² above a value

    if bins < 2 or not known or not new:
        return float("inf")
    return float((1 / known + 1 / new) * chdtri(bins - 1, CHANCE))


def _count_bins(values: Floats | Ints, edges: Floats) -> Histogram:
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)
    return Histogram(edges=edges.tolist(), counts=counts.tolist())


def _normalize(rows: Floats) -> Floats:
    """Scale rows (N, F) to unit length; a row of zeros is unchanged."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12))


def _ngram_batches(texts: Sequence[str]) -> Iterator[Floats]:
    """Yield hashed counts of character n-grams, (≤ AT_ONCE, F) per batch."""
    return (_ngrams(texts[start : start + BATCH_TEXTS]) for start in range(0, len(texts), BATCH_TEXTS))


def _ngrams(texts: Sequence[str]) -> Floats:
    lowered = [text.lower() for text in texts]
    characters = characters_of(lowered)
    points, row = characters.values.astype(np.uint64), characters.row_numbers()
    room = characters.spread(characters.lengths) - characters.positions()
    counts = np.zeros(len(texts) * FEATURES)
    for order in ORDERS:
        starts = np.flatnonzero(room >= order)  # an n-gram does not extend beyond its text
        key = np.full(len(starts), order, np.uint64)
        for step in range(order):
            key = (key ^ points[starts + step]) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        cell = row[starts] * FEATURES + (key % np.uint64(FEATURES)).astype(np.int64)
        counts += np.bincount(cell, minlength=len(counts))
    return counts.reshape(len(texts), FEATURES)
