"""Float64 reference of HTH, equation by equation, for one text without padding and H heads.

"A head-to-head attention with prompt text augmentation for text classification".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.parity.reference.attention import scores
from tests.parity.reference.common import Array, linear, softmax

Pair = tuple[Array, Array]  # weight and bias of a linear layer


def squeezed(features: Sequence[Array]) -> Array:
    """HTH Eq. 1: the mean of each head's feature map U_h, (H,); (L, L) scores or (L, d) context."""
    return np.array([sum(value for row in u for value in row) / u.size for u in features])


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^−x)."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def relation(m: Array, first: Pair, second: Pair) -> Array:
    """HTH Eq. 2–4: X = σ(W_x m + b_x), Y = σ(W_y m + b_y), Z = softmax(X Yᵀ / √d_Y), (H, H); X a column, d_Y = H."""
    x, y = sigmoid(linear(m, *first)), sigmoid(linear(m, *second))
    products = np.array([[a * b for b in y] for a in x])
    return softmax(products / np.sqrt(len(y)))


def rescaled(m: Array, first: Pair, second: Pair) -> Array:
    """HTH Eq. 5 without dropout: M̃ = Z ⊗ M, (H,)."""
    return np.asarray(relation(m, first, second) @ m)


def factors(m: Array, first: Pair, second: Pair, strength: float | None) -> Array:
    """Factor of each head in Eq. 6, (H,): M̃ (`paper`, no strength) or 1 + strength · M̃ (`residual`)."""
    weights = rescaled(m, first, second)
    return weights if strength is None else 1.0 + strength * weights


def attention(
    q: Array, k: Array, v: Array, heads: int, first: Pair, second: Pair, *, strength: float | None, site: str
) -> Array:
    """HTH Eq. 1–6 before W_O: heads over consecutive slices of (L, D), concatenated.

    `scores` squeezes and scales U = QKᵀ/√d before the softmax; `context` squeezes and scales softmax(U) V.
    """
    slices = np.split(np.arange(q.shape[1]), heads)
    raw = [scores(q[:, s], k[:, s]) for s in slices]
    if site == "scores":
        raw = [f * u for f, u in zip(factors(squeezed(raw), first, second, strength), raw, strict=True)]  # Eq. 6
    context = [softmax(u) @ v[:, s] for u, s in zip(raw, slices, strict=True)]
    if site == "context":
        context = [f * c for f, c in zip(factors(squeezed(context), first, second, strength), context, strict=True)]
    return np.concatenate(context, axis=1)
