"""Temperature of the logits (Guo et al., On Calibration of Modern Neural Networks, 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.sampling import choose_rows

LOG_TEMPERATURE = (-5.0, 5.0)  # bounds
MAX_ROWS = 20_000  # of many, chosen at random; more do not change the temperature noticeably
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def fit_temperature(logits: NDArray[np.floating[Any]], gold: NDArray[np.bool_], *, multi: bool) -> float:
    """Return the temperature T with the smallest cross-entropy of logits / T, by golden-section search over log T.

    `logits` and `gold` are (N, C), of the development set; `multi`: a text may have several labels. The targets are
    smoothed as by Platt (1999): a gold label has the target 1 − 1 / (N + 2). Without it, a few rows that are all right
    would make every prediction certain. The cross-entropy is convex in 1 / T, so it has a single minimum. T is 1 if no
    other value is better. Of many rows, MAX_ROWS decide.
    """
    decisive = decisive_rows(len(logits))
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


def decisive_rows(rows: int) -> slice | NDArray[np.int64]:
    """Return the rows, of so many, that decide the temperature."""
    return slice(None) if rows <= MAX_ROWS else choose_rows(rows, MAX_ROWS)


def from_logits(logits: NDArray[np.floating[Any]], *, multi: bool) -> NDArray[np.floating[Any]]:
    """Return the probabilities of logits (N, C): sigmoid if a text may have several labels, else softmax."""
    if multi:
        return np.asarray(1 / (1 + np.exp(-logits)))
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(shares / shares.sum(1, keepdims=True))
