"""Float64 reference of DMSP and DDCF, equation by equation, for one text without padding.

Liu et al. 2024, "A dynamic multi-layer semantics perceptron without attention mechanism".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.parity.reference.common import Array, cross_entropy, layer_norm, linear, relu, softmax


def transformed(x0: Array, order: Sequence[int]) -> Array:
    """DMSP Eq. 1: F_t(x⁰), the initial tokens reordered."""
    assert sorted(order) == list(range(len(x0)))
    return np.stack([x0[i] for i in order])


def perceptron(moved: Array | float, x: Array, learned: Array) -> Array:
    """DMSP Eq. 2, 8: norm(−F_t(x⁰) + x^{j−1} + F_m(x^{j−1})), norm without gain and bias."""
    return layer_norm(-moved + x + learned)


def counted(alpha: Sequence[float], xi: float) -> tuple[int, int]:
    """DMSP Algorithm 1, lines 12, 13: g classifiers with α > ξ, s with α ≤ ξ."""
    g, s = 0, 0
    for accuracy in alpha:
        if accuracy > xi:
            g += 1
        else:
            s += 1
    return g, s


def mu(alpha: Sequence[float], xi: float) -> list[float]:
    """DMSP Eq. 5: 1 for a good classifier; for the others −∞ if g ≥ s + 1, −1 otherwise."""
    g, s = counted(alpha, xi)
    return [1.0 if accuracy > xi else -np.inf if g >= s + 1 else -1.0 for accuracy in alpha]


def beta(alpha: Sequence[float], xi: float) -> Array:
    """DMSP Eq. 6: exp(μ α) over its own sum, so that the weights sum to 1; 0 where μ = −∞."""
    powers = [0.0 if m == -np.inf else np.exp(m * accuracy) for m, accuracy in zip(mu(alpha, xi), alpha, strict=True)]
    return np.array(powers) / sum(powers)


def removes(alpha: Sequence[float], xi: float, rule: str) -> bool:
    """DMSP §2.3, case 2 (`equation`: s ≥ 1 and g ≥ s + 1) or Algorithm 1, line 15 (`algorithm`: g > s + 1).

    Line 15 is used with s ≥ 1 too: without it a stack of good layers would shrink to depth 1.
    """
    g, s = counted(alpha, xi)
    return s >= 1 and (g >= s + 1 if rule == "equation" else g > s + 1)


def removed(alpha: Sequence[float], xi: float, rule: str, drop: str = "last") -> int | None:
    """DMSP §2.3, case 2: the index of the dropped layer (the last one or, with `worst`, the worst one), or None."""
    if not removes(alpha, xi, rule):
        return None
    return len(alpha) - 1 if drop == "last" else list(alpha).index(min(alpha))


def step(alpha: Sequence[float], xi: float, rule: str, drop: str = "last") -> tuple[list[int], Array]:
    """DMSP Algorithm 1, lines 12–16, for one epoch: the kept layers, and their β by Eq. 5 (line 14)."""
    gone = removed(alpha, xi, rule, drop)
    kept = [j for j in range(len(alpha)) if j != gone]
    return kept, beta([alpha[j] for j in kept], xi)


def classifier(x: Array, token: tuple[Array, Array], out: tuple[Array, Array]) -> Array:
    """DMSP Eq. 4: h_j(x^j), logits (C,): D→128 with ReLU per token, mean over the tokens, 128→C."""
    return linear(relu(linear(x, *token)).mean(axis=0), *out)


def ensemble(weights: Array, probabilities: Array) -> Array:
    """DMSP Eq. 7: p = Σ_j β^j p^j; (γ,) and (γ, C), returns (C,)."""
    return np.asarray(sum(b * p for b, p in zip(weights, probabilities, strict=True)))


def mlp(x: Array, first: tuple[Array, Array], second: tuple[Array, Array]) -> Array:
    """DMSP §1.2: F_m(x, θ), D→512→D with ReLU per token."""
    return linear(relu(linear(x, *first)), *second)


def loss(logits: Array, labels: Sequence[int], which: str) -> float:
    """DMSP Eq. 9: mean cross-entropy of (γ, n, C) logits over the texts, for the last classifier (`last`) or summed."""
    layers = softmax(logits)
    chosen = layers[-1:] if which == "last" else layers
    return float(sum(np.mean([cross_entropy(p, y) for p, y in zip(layer, labels, strict=True)]) for layer in chosen))
