"""Float64 reference of prompt text augmentation for one text; `first` and `second` are mask-head probabilities (C,).

"A head-to-head attention with prompt text augmentation for text classification".
"""

from __future__ import annotations

import numpy as np

from tests.parity.reference.common import Array, cross_entropy


def loss_binary(first: Array, second: Array, label: int, gamma: float = 0.5) -> float:
    """PTA Eq. 8, as printed for two classes: γ · CE(first, y) + (1 − γ) · CE(second, opposite of y)."""
    return gamma * cross_entropy(first, label) + (1 - gamma) * cross_entropy(second, 1 - label)


def loss_many(first: Array, second: Array, label: int, gamma: float = 0.5) -> float:
    """PTA Eq. 8 for C classes: the second term is −log Σ_{c≠y} p₂(c); every label but y is right."""
    others = sum(p for c, p in enumerate(second) if c != label)
    return gamma * cross_entropy(first, label) - (1 - gamma) * float(np.log(others))


def inference(first: Array, second: Array, gamma: float = 0.5) -> Array:
    """Inference rule of the adopted interpretation: p ∝ p₁^γ · (1 − p₂)^{1 − γ}, normalized."""
    joint = first**gamma * (1 - second) ** (1 - gamma)
    return joint / joint.sum()
