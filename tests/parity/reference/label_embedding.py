"""Float64 reference of LEAM and EXAM for one text without padding.

LEAM: Wang et al. 2018, "Joint embedding of words and labels for text classification". EXAM: Du et al. 2019, "Explicit
interaction model towards text classification".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.parity.reference.common import Array, cross_entropy, linear, relu, softmax


def compatibility(words: Array, labels: Array) -> Array:
    """LEAM Eq. 4: G, the cosine of every label (C, D) with every word (L, D): (C, L)."""
    g = np.zeros((len(labels), len(words)))
    for k, label in enumerate(labels):
        for i, word in enumerate(words):
            g[k, i] = label @ word / (np.linalg.norm(label) * np.linalg.norm(word))
    return g


def window(g: Array, place: int, radius: int) -> Array:
    """G_{l−r : l+r} with zero padding: (C, 2r + 1)."""
    wide = np.pad(g, ((0, 0), (radius, radius)))
    return wide[:, place : place + 2 * radius + 1]


def attention(g: Array, w1: Array, b1: Array) -> Array:
    """LEAM Eq. 5–7: u_l = ReLU(G_{l−r : l+r} W₁ + b₁), m_l = max over the labels, β = softmax(m): (L,)."""
    radius = len(w1) // 2
    return softmax(np.array([relu(window(g, place, radius) @ w1 + b1).max() for place in range(g.shape[1])]))


def perceptron(z: Array, first: tuple[Array, Array], second: tuple[Array, Array]) -> Array:
    """f₂: two layers with a ReLU in between."""
    return linear(relu(linear(z, *first)), *second)


def attended(words: Array, beta: Array) -> Array:
    """LEAM Eq. 8: z = Σ_l β_l v_l."""
    return np.asarray(sum(b * word for b, word in zip(beta, words, strict=True)))


def leam_loss(logits: Sequence[Array], gold: Sequence[int], anchors: Sequence[Array], weight: float) -> float:
    """LEAM Eq. 9, 10: mean CE of the texts plus `weight` times the mean CE of f₂(c_k) as label k."""
    texts = np.mean([cross_entropy(softmax(o), y) for o, y in zip(logits, gold, strict=True)])
    labels = np.mean([cross_entropy(softmax(o), k) for k, o in enumerate(anchors)])
    return float(texts + weight * labels)


def region(ids: Sequence[int], vectors: Array, units: Array) -> Array:
    """EXAM's word encoder (region embedding, Qiao et al. 2018): max over t of K_{w_i, t} ⊙ e_{w_{i+t}}: (L, D).

    `units` is (2s + 1, V, D); positions outside the text are left out.
    """
    radius = len(units) // 2
    out = []
    for i, word in enumerate(ids):
        near = [
            units[t + radius][word] * vectors[ids[i + t]] for t in range(-radius, radius + 1) if 0 <= i + t < len(ids)
        ]
        out.append(np.max(near, axis=0))
    return np.stack(out)


def interaction(words: Array, classes: Array) -> Array:
    """EXAM Eq. 6: I = T Hᵀ, every class (C, D) with every word (L, D): (C, L)."""
    return np.asarray(classes @ words.T)


def aggregated(i: Array, first: tuple[Array, Array], second: tuple[Array, Array]) -> Array:
    """EXAM Eq. 7: o_k = W₂ ReLU(W₁ I_k + b₁) + b₂, plus Σ_j I_kj as in the authors' code: (C,).

    I_k is padded with zeros to the input length n of W₁ (m, n).
    """
    length = first[0].shape[1]
    rows = [np.pad(row, (0, length - len(row))) for row in i]
    return np.array([perceptron(row, first, second)[0] + row.sum() for row in rows])
