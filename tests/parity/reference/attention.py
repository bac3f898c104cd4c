"""Vaswani et al. 2017, "Attention is all you need", and the weight placements that Transformer-F applies to it."""

from __future__ import annotations

import numpy as np

from tests.parity.reference.common import Array, softmax


def scores(queries: Array, keys: Array) -> Array:
    """Vaswani et al. 2017, Eq. 1: Q Kᵀ / √d for one head; (L, d) each, returns (L, L)."""
    return np.asarray(queries @ keys.T / np.sqrt(queries.shape[-1]))


def weighted(raw: Array, weight: Array, placement: str) -> Array:
    """Transformer-F Eq. 5: attention from raw scores (L, L) and one weight per key (L,).

    `after` is the paper's softmax(C) · diag(w), not renormalized; `inside` is softmax(C ∘ w) and `log` is
    softmax(C + log w).
    """
    if placement == "after":
        return softmax(raw) @ np.diag(weight)
    return softmax(raw @ np.diag(weight)) if placement == "inside" else softmax(raw + np.log(weight))


def dot_product(q: Array, k: Array, v: Array, heads: int, weight: Array, placement: str = "after") -> Array:
    """Vaswani et al. 2017, §3.2.2 before W_O: heads over consecutive slices of (L, D), concatenated."""
    slices = np.split(np.arange(q.shape[1]), heads)
    return np.concatenate([weighted(scores(q[:, s], k[:, s]), weight, placement) @ v[:, s] for s in slices], axis=1)


def sinusoids(length: int, width: int) -> Array:
    """Vaswani et al. 2017, §3.5: PE(p, 2i) = sin(p / 10000^{2i/d}), PE(p, 2i+1) = cos of the same."""
    table = np.zeros((length, width))
    for position in range(length):
        for i in range(width):
            angle = position / 10000.0 ** (2 * (i // 2) / width)
            table[position, i] = np.sin(angle) if i % 2 == 0 else np.cos(angle)
    return table
