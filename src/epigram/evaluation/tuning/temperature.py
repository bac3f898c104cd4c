"""Temperature of the logits (Guo et al., On Calibration of Modern Neural Networks, 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.sampling import choose_rows

LOG_TEMPERATURE = (-5.0, 5.0)  # bounds
MAX_ROWS = 20_000  # maximum, chosen at random; more do not change the temperature noticeably
MAX_LOGITS = 4_000_000  # maximum; for more than 200 labels, fewer rows are chosen, but at least MIN_ROWS
MIN_ROWS = 2_000
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
EPSILON = 1e-12  # smallest probability and smallest distance from 1 of which a logit is computed


def fit_temperature(logits: NDArray[np.floating[Any]], gold: NDArray[np.bool_], *, multi: bool) -> float:
    """Return the temperature T with the smallest cross-entropy of logits / T, by golden-section search over log T.

    `logits` and `gold` are (N, C), of the development set; `multi`: a text may have several labels. The targets are
    smoothed as by Platt (1999): a gold label has the target 1 − 1 / (N + 2). Without it, a few rows that are all right
    would make every prediction certain. The cross-entropy is convex in 1 / T, so it has a single minimum. T is 1 if no
    other value is better. Of many rows, some decide.
    """
    decisive = decisive_rows(*logits.shape)
    logits, gold = logits[decisive], gold[decisive]
    if not np.isfinite(logits).all() or (not multi and logits.shape[1] == 1):
        return 1.0
    logits = logits.astype(float)
    wrong = 1.0 / (len(logits) + 2)
    targets = np.where(gold, 1.0 - wrong, wrong if multi else wrong / (logits.shape[1] - 1))

    def loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        normalizer = np.logaddexp(0.0, scaled) if multi else _log_sum_exp(scaled)
        return float(normalizer.sum() - (targets * scaled).sum())

    low, high = LOG_TEMPERATURE
    while high - low > 1e-4:
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    best = (low + high) / 2
    return float(np.exp(best)) if loss(best) < loss(0.0) else 1.0


def _log_sum_exp(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return log Σ exp of each row (N,) of `logits` (N, C); `logaddexp.reduce` takes more than twice the time."""
    top = logits.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(logits - top).sum(1)) + top[:, 0])


def decisive_rows(rows: int, labels: int) -> slice | NDArray[np.int64]:
    """Return the rows, of so many with logits of so many labels, that decide the temperature."""
    most = min(MAX_ROWS, max(MIN_ROWS, MAX_LOGITS // labels))
    return slice(None) if rows <= most else choose_rows(rows, most)


def from_logits(logits: NDArray[np.floating[Any]], *, multi: bool) -> NDArray[np.floating[Any]]:
    """Return the probabilities of logits (..., C): sigmoid if a text may have several labels, else softmax."""
    if multi:
        with np.errstate(over="ignore"):  # exp overflows to inf: the probability 1 / inf is 0
            return np.asarray(1 / (1 + np.exp(-logits)))
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.asarray(shares)


def to_logits(
    probabilities: NDArray[np.floating[Any]], *, multi: bool, smallest: float = EPSILON
) -> NDArray[np.floating[Any]]:
    """Return logits (..., C) of probabilities; `smallest` is their least value and their least distance from 1."""
    known = np.clip(probabilities, smallest, 1 - smallest, dtype=np.float64)
    return np.asarray(np.log(known) - np.log1p(-known) if multi else np.log(known, out=known))


def at_temperature(
    probabilities: NDArray[np.floating[Any]], temperature: float, *, multi: bool
) -> NDArray[np.floating[Any]]:
    """Return probabilities (..., C) after dividing their logits by the temperature (Guo et al., 2017, Eq. 9)."""
    return from_logits(to_logits(probabilities, multi=multi) / temperature, multi=multi)
