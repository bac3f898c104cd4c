"""Float64 reference of MHAL, equation by equation, for one text without padding.

Pislar and Rei 2020, "Seeing both the forest and the trees: multi-head attention for joint classification on different
compositional levels".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tests.parity.reference.common import Array, cross_entropy, linear, softmax
from tests.parity.reference.lstm import Lstm, bilstm, sigmoid

Dense = tuple[Array, Array]


@dataclass(frozen=True)
class Heads:
    """Parameters W_z; W_q, W_k, W_v, each with the rows of all heads stacked; W_s and W_o, shared by the heads."""

    join: Dense
    query: Dense
    key: Dense
    value: Dense
    text_hidden: Dense
    text_out: Dense
    count: int


def dense(x: Array, layer: Dense) -> Array:
    """tanh(W x + b)."""
    return np.tanh(linear(x, *layer))


def parts(z: Array, layer: Dense, count: int) -> Array:
    """Return the vectors of each head for every token: (H, L, d)."""
    return np.stack(np.split(dense(z, layer), count, axis=1))


def queries(z: Array, heads: Heads) -> Array:
    """Eq. 4: q_h = 1/N Σ_i q_ih: (H, d)."""
    return np.stack([sum(q) / len(q) for q in parts(z, heads.query, heads.count)])


def evidence(z: Array, heads: Heads) -> Array:
    """Eq. 5: a_ih = q_h · k_ih: (L, H)."""
    q, keys = queries(z, heads), parts(z, heads.key, heads.count)
    return np.array([[q[h] @ keys[h, i] for h in range(heads.count)] for i in range(len(z))])


def shares(a: Array) -> Array:
    """Eq. 6: α_ih = σ(a_ih) / Σ_j σ(a_jh): (L, H)."""
    return np.array([[sigmoid(a[i, h]) / sigmoid(a[:, h]).sum() for h in range(a.shape[1])] for i in range(len(a))])


def text_scores(z: Array, heads: Heads, dropped: Array | float = 1.0) -> Array:
    """Eq. 6–8: s_h = Σ_i α_ih v_ih, o_h = W_o tanh(W_s s_h + b_s) + b_o: (H,).

    `dropped` (L, H) is the dropout mask of α, 0 or 1 / (1 − rate).
    """
    alpha, values, scores = shares(evidence(z, heads)) * dropped, parts(z, heads.value, heads.count), []
    for h in range(heads.count):
        s = sum(alpha[i, h] * values[h, i] for i in range(len(z)))
        scores.append(float(linear(dense(s, heads.text_hidden), *heads.text_out)[0]))
    return np.array(scores)


def sentence(o: Array, heads_of: Sequence[Sequence[int]]) -> Array:
    """õ: the score of each class's head (H = S), or the maximum over its heads (S = 2)."""
    return np.array([max(o[h] for h in mine) for mine in heads_of])


def smoothed(label: int, target: int, smoothing: float, outcomes: int) -> float:
    """Szegedy et al. 2016, §7: q'_label of a text with the label `target`, (1 − ε) δ + ε/K."""
    return (1 - smoothing) * (1.0 if label == target else 0.0) + smoothing / outcomes


def attention_loss(
    t: Array,
    label: int,
    heads_of: Sequence[Sequence[int]],
    smoothing: float,
    outcomes: int | None = None,
    printed: bool = False,
) -> float:
    """Eq. 11, 12: (max_i t̃*_ik − q'_k)² + (max_i t̃_id − 1)², with t̃ (L, H) and the default label d = 0.

    `outcomes` is K, by default the number of text labels. `printed` has the target q'_d instead of 1.
    """
    starred, count = [max(row[h] for h in heads_of[label]) for row in t], outcomes or len(heads_of)
    default = next(k for k, own in enumerate(heads_of) if 0 in own)
    wanted = smoothed(default, label, smoothing, count) if printed else 1.0
    own = smoothed(label, label, smoothing, count)
    return float((max(starred) - own) ** 2 + (max(row[0] for row in t) - wanted) ** 2)


def likeness(q: Array, *, absolute: bool = False) -> float:
    """Eq. 13: R_q = 2 / (H(H−1)) Σ_{h<i} cos(q_h, q_i)."""
    total = 0.0
    for first, second in combinations(q, 2):
        cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
        total += abs(cosine) if absolute else cosine
    return float(2 / (len(q) * (len(q) - 1)) * total)


def token_loss(a: Array, labels: Sequence[int]) -> float:
    """Eq. 10: −Σ_i log t̃ of the token's label; −1 means no label."""
    return sum(cross_entropy(softmax(row), label) for row, label in zip(a, labels, strict=True) if label >= 0)


def spelled(characters: Sequence[int], table: Array, ahead: Lstm, back: Lstm, project: Dense) -> Array:
    """c_i = tanh(W [last forward state; last backward state]) over a word's characters: (S,)."""
    _, last, _ = bilstm(table[list(characters)], ahead, back)
    return dense(last, project)


def middle_words(vectors: Array, ids: Sequence[int], hidden: Dense, out: Dense, most: int) -> float:
    """Authors' configuration for SST: [c_{t−1}; c_{t+1}] predicts w_t, for every word with two neighbours."""
    known, total = [min(word, most) for word in ids], 0.0
    for t in range(1, len(known) - 1):
        beside = np.concatenate([vectors[t - 1], vectors[t + 1]])
        total += cross_entropy(softmax(linear(dense(beside, hidden), *out)), known[t])
    return total


def language_model(
    states: Array, ids: Sequence[int], ahead: Sequence[Dense], back: Sequence[Dense], most: int
) -> float:
    """Rei (2017): the forward state at t predicts w_{t+1}, the backward state w_{t−1}, through a tanh layer.

    `ahead` and `back` are hidden layer and output layer of each direction. Word ids from `most` on are replaced by
    `most`; the id outside the text is `most` + 1.
    """
    known = [min(word, most) for word in ids]
    width, border, total = states.shape[1] // 2, most + 1, 0.0
    for i, state in enumerate(states):
        after = known[i + 1] if i + 1 < len(known) else border
        before = known[i - 1] if i > 0 else border
        for half, (hidden, out), gold in ((state[:width], ahead, after), (state[width:], back, before)):
            total += cross_entropy(softmax(linear(dense(half, hidden), *out)), gold)
    return total
