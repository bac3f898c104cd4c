"""Float64 NumPy functions that several references share; each takes one text without padding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    powers = np.exp(scores)
    return powers / powers.sum(axis=-1, keepdims=True)


def layer_norm(x: Array, gain: Array | float = 1.0, bias: Array | float = 0.0, epsilon: float = 1e-5) -> Array:
    """Ba et al. 2016, Eq. 3: normalize each vector to mean 0 and variance 1, then apply gain and bias."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gain + bias


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x Wᵀ + b with W (out, in)."""
    return x @ weight.T if bias is None else x @ weight.T + bias


def relu(x: Array) -> Array:
    """max(0, x)."""
    return np.maximum(x, 0.0)


def gelu(x: Array) -> Array:
    """Hendrycks and Gimpel 2016: x Φ(x), exact."""
    from math import erf

    return x * 0.5 * (1.0 + np.vectorize(erf)(x / np.sqrt(2.0)))


def cross_entropy(probabilities: Array, label: int) -> float:
    """−log of the label's probability for one text."""
    return float(-np.log(probabilities[label]))
