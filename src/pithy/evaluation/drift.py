"""Have the texts changed since the champion learnt? New texts against those that it knows.

Every measure is a number of each text: its length, the share of its tokens that are unknown, how like the training
texts its character n-grams are, the class and the confidence that the champion answers with, and, where there is one,
its label. The numbers of the known texts make a histogram, those of the new ones another, and the two are compared by
the population stability index, Σ (a − e) ln(a / e). A measure has drifted where its index is above the threshold and
above what chance alone gives: without drift it is (1/N + 1/M) χ² with B − 1 degrees of freedom (Yurdakul, Statistical
Properties of Population Stability Index, 2018), so that few texts cannot raise an alarm.

N new texts, M known ones, B bins, F hashed n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pithy.evaluation.arrays import Floats, Ints
from pithy.text.characters import code_points

BINS = 10
PER_BIN = 10  # known texts: fewer make fewer bins
FEATURES = 1 << 12
ORDERS = (1, 2, 3)
AT_ONCE = 512  # texts whose n-grams are counted at once: 16 MB
SURE = 3.09  # standard normal quantile of 0.999
MEASURES = {
    "length": "characters of a text",
    "unknown": "share of unknown tokens",
    "likeness": "cosine of a text's n-grams and the mean training text's",
    "predicted": "class that the champion answers",
    "confidence": "probability of that class",
    "label": "label",
}


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How many texts fall into each bin (B,): bin b holds the values above edge b − 1 and up to edge b."""

    edges: list[float]  # (B − 1,)
    counts: list[int]


@dataclass(frozen=True, kw_only=True)
class Ngrams:
    """The mean of the training texts' n-gram vectors (F,), of unit length, and the weight of each n-gram (F,)."""

    weights: list[float]
    mean: list[float]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What is kept of the texts that a champion knows."""

    labels: list[str]
    ngrams: Ngrams
    histograms: dict[str, Histogram]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One measure: its index, what chance alone reaches in one of a thousand cases, and whether it has drifted."""

    name: str
    index: float
    chance: float
    drifted: bool


def learnt(texts: Sequence[str]) -> Ngrams:
    """The n-grams of the training texts, weighted by their rarity (smoothed inverse document frequency)."""
    rows = np.zeros(FEATURES)
    for counts in _counted(texts):
        rows += (counts > 0).sum(0)
    weights = np.log((1 + len(texts)) / (1 + rows)) + 1
    total = np.zeros(FEATURES)
    for counts in _counted(texts):
        total += _unit(counts * weights).sum(0)
    mean = _unit(total[None])[0]
    return Ngrams(weights=weights.round(4).tolist(), mean=mean.round(6).tolist())


def likeness(texts: Sequence[str], ngrams: Ngrams) -> Floats:
    """Cosine of each text's n-gram vector and the mean training text's, (N,)."""
    weights, mean = np.array(ngrams.weights), np.array(ngrams.mean)
    return np.concatenate([np.zeros(0), *(_unit(counts * weights) @ mean for counts in _counted(texts))])


def unknown_share(ids: Ints, offsets: Ints, unknown: int) -> Floats:
    """Share of each text's tokens that are `unknown`, (N,), from flat ids and offsets (N + 1,)."""
    seen = np.concatenate([[0], np.cumsum(ids == unknown)])
    sizes = np.diff(offsets)
    return np.asarray((seen[offsets[1:]] - seen[offsets[:-1]]) / np.maximum(sizes, 1))


def lengths(texts: Sequence[str]) -> Ints:
    """Characters of each text, (N,)."""
    return np.fromiter(map(len, texts), np.int64, len(texts))


def histogram(values: Floats | Ints) -> Histogram:
    """Bins that hold about equally many of `values` (M,): ten, or fewer where there are few values."""
    bins = int(np.clip(len(values) // PER_BIN, 2, BINS))
    edges = np.unique(np.quantile(values, np.arange(1, bins) / bins)) if len(values) else np.zeros(0)
    return _filled(values, edges)


def classes(codes: Ints, count: int) -> Histogram:
    """One bin a class; codes are 0 … count − 1."""
    return _filled(codes, np.arange(count - 1, dtype=float))


def measure(reference: Reference, values: Mapping[str, Floats | Ints], threshold: float) -> list[Measure]:
    """Compare the numbers of new texts with the reference, in the order of `values`."""
    return [_measure(name, reference.histograms[name], found, threshold) for name, found in values.items()]


def stability_index(expected: Ints, actual: Ints) -> float:
    """Population stability index of two histograms (B,); half a text is added to every bin, so that none is empty."""
    e, a = ((counts + 0.5) / (counts.sum() + 0.5 * len(counts)) for counts in (expected, actual))
    return float(((a - e) * np.log(a / e)).sum())


def by_chance(known: int, new: int, bins: int) -> float:
    """What the index of texts that have not changed reaches in one of a thousand cases.

    The quantile of χ² is that of Wilson and Hilferty, 1931.
    """
    if bins < 2 or not known or not new:
        return float("inf")
    k = bins - 1
    quantile = k * (1 - 2 / (9 * k) + SURE * np.sqrt(2 / (9 * k))) ** 3
    return float((1 / known + 1 / new) * quantile)


def _measure(name: str, known: Histogram, values: Floats | Ints, threshold: float) -> Measure:
    new = _filled(values, np.array(known.edges))
    expected, actual = np.array(known.counts), np.array(new.counts)
    index, chance = stability_index(expected, actual), by_chance(expected.sum(), actual.sum(), len(expected))
    return Measure(name=name, index=index, chance=chance, drifted=index > threshold and index > chance)


def _filled(values: Floats | Ints, edges: Floats) -> Histogram:
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)
    return Histogram(edges=edges.tolist(), counts=counts.tolist())


def _unit(rows: Floats) -> Floats:
    """Rows (N, F) at unit length; a row of zeros stays."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12))


def _counted(texts: Sequence[str]) -> Iterator[Floats]:
    """Hashed counts of character n-grams, (≤ AT_ONCE, F) a batch."""
    return (_ngrams(texts[start : start + AT_ONCE]) for start in range(0, len(texts), AT_ONCE))


def _ngrams(texts: Sequence[str]) -> Floats:
    lowered = [text.lower() for text in texts]
    points, sizes = code_points(lowered).astype(np.uint64), lengths(lowered)
    row, room = np.repeat(np.arange(len(texts)), sizes), np.repeat(np.cumsum(sizes), sizes) - np.arange(len(points))
    counts = np.zeros(len(texts) * FEATURES)
    for order in ORDERS:
        starts = np.flatnonzero(room >= order)  # an n-gram ends where its text does
        key = np.full(len(starts), order, np.uint64)
        for step in range(order):
            key = (key ^ points[starts + step]) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        cell = row[starts] * FEATURES + (key % np.uint64(FEATURES)).astype(np.int64)
        counts += np.bincount(cell, minlength=len(counts))
    return counts.reshape(len(texts), FEATURES)
