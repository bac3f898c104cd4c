"""Float64 reference of Transformer-F, equation by equation, for one text without padding.

"Transformer-F: A Transformer network with effective methods for learning universal sentence representation".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.parity.reference.attention import weighted
from tests.parity.reference.common import Array, gelu, layer_norm, linear


def covariance(first: Array, second: Array) -> float:
    """Transformer-F Eq. 4: E((X_i − E X_i) · (X_j − E X_j)) over the D coordinates of two token vectors."""
    return float(((first - first.mean()) * (second - second.mean())).mean())


def correlation(x: Array) -> Array:
    """Transformer-F Eq. 2, 3: ρ_ij = cov(X_i, X_j) / √(D X_i · D X_j) of tokens (L, D); returns (L, L).

    The correlation with a vector of zero variance is 0.
    """
    length = len(x)
    rho = np.zeros((length, length))
    for i in range(length):
        for j in range(length):
            spread = np.sqrt(covariance(x[i], x[i]) * covariance(x[j], x[j]))
            rho[i, j] = covariance(x[i], x[j]) / spread if spread > 0 else 0.0
    return rho


def regularized(rho: Array) -> Array:
    """Transformer-F §3.1: each row of C scaled to unit L2 norm; zero rows stay zero."""
    norms = np.sqrt((rho**2).sum(axis=1, keepdims=True))
    return rho / np.where(norms > 0, norms, 1.0)


def attention(x: Array, weight: Array, placement: str, row_norm: bool, temperature: float = 1.0) -> Array:
    """Transformer-F Eq. 1, 5: softmax(C) · W_POS (or another placement of w), (L, L); the paper has temperature 1."""
    rho = correlation(x)
    return weighted((regularized(rho) if row_norm else rho) / temperature, weight, placement)


def hook(layer: int, layers: int, a: float = 0.4, b: float = 2.9) -> float:
    """Transformer-F Eq. 6: (a·l + b/l) / (N/2) for l = 1..N."""
    return (a * layer + b / layer) / (layers / 2)


def fusion(states: Sequence[Array], a: float = 0.4, b: float = 2.9) -> Array:
    """Transformer-F Eq. 7, inside Linear: Σ_l Hook(l) · block_l over l = 1..N."""
    layers = len(states)
    return np.asarray(sum(hook(layer, layers, a, b) * state for layer, state in enumerate(states, start=1)))


def block(
    x: Array,
    attended: Array,
    norms: Sequence[tuple[Array, Array]],
    feed: Sequence[tuple[Array, Array]],
    activation: Callable[[Array], Array] = gelu,
) -> Array:
    """Transformer-F Eq. 7, x + Sublayer(x), post-LN (Vaswani et al. 2017, §3.1, 3.3): LN(x + Sublayer(x)) twice.

    `attended` is the output of the first sublayer; the second is a perceptron (the paper names no
    activation; Vaswani et al. have a ReLU). `norms` are two (gain, bias), `feed` two (weight, bias).
    """
    x = layer_norm(x + attended, *norms[0])
    hidden = activation(linear(x, *feed[0]))
    return layer_norm(x + linear(hidden, *feed[1]), *norms[1])
