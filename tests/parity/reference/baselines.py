"""Float64 reference of the papers' baselines: fastText, DPCNN, VDCNN, Att-BLSTM, Universal Transformer.

Each function takes one text without padding and computes it position by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.parity.reference.attention import sinusoids
from tests.parity.reference.common import Array, relu, softmax


def fast_text(
    ids: Sequence[int], words: Array, buckets: Array, bucket: Callable[[Sequence[int]], int], orders: Sequence[int]
) -> Array:
    """Joulin et al. 2017, §2: the mean of the vectors of every word and of every hashed n-gram; returns (D,)."""
    vectors = [words[i] for i in ids]
    for n in orders:
        vectors += [buckets[bucket(ids[start : start + n])] for start in range(len(ids) - n + 1)]
    return np.mean(vectors, axis=0)


def convolution(x: Array, weight: Array, bias: Array) -> Array:
    """Convolution of size 3 over (L, D) with zero padding and weight (out, D, 3); returns (L, out)."""
    zero = np.zeros((1, x.shape[1]))
    around = np.concatenate([zero, x, zero])
    return np.stack([sum(weight[:, :, k] @ around[i + k] for k in range(3)) + bias for i in range(len(x))])


def global_windows(
    x: Array,
    h: Array,
    size: int,
    weight: Array,
    bias: Array,
    extra: Array,
    narrow: Array,
    offset: Array,
    query: Array | None,
    key: Array | None,
) -> Array:
    """Niu et al. 2019, §3: windows of (L, D) that read one more word, made from the states h of Encoder1.

    With `query` and `key`, each window attends to h; otherwise the word is the maximum of h.
    """
    features = []
    for t in range(len(x)):
        inside = [x[s] if 0 <= s < len(x) else 0 * x[0] for s in range(t - (size - 1) // 2, t + size // 2 + 1)]
        summary = h.max(axis=0)
        if query is not None and key is not None:
            scores = np.array([np.tanh(query @ (sum(inside) / size)) @ np.tanh(key @ state) for state in h])
            summary = softmax(scores) @ h
        word = np.maximum(narrow @ summary + offset, 0)
        features.append(np.maximum(weight @ np.concatenate(inside) + extra @ word + bias, 0))
    return np.stack(features)


def halved(x: Array) -> Array:
    """Johnson and Zhang 2017, §2: maximum over windows of 3 at every second position; (L, D) to (⌈L/2⌉, D)."""
    return np.stack([x[max(0, i - 1) : i + 2].max(axis=0) for i in range(0, len(x), 2)])


def dpcnn_block(x: Array, first: tuple[Array, Array], second: tuple[Array, Array]) -> Array:
    """Johnson and Zhang 2017, §2: z + f(z); f is two convolutions with pre-activation, W σ(x) + b."""
    return np.asarray(x + convolution(relu(convolution(relu(x), *first)), *second))


def dpcnn(x: Array, region: tuple[Array, Array], blocks: Sequence[tuple[tuple[Array, Array], ...]]) -> Array:
    """Johnson and Zhang 2017, Fig. 1a: region embedding and a block, then halving and a block, repeated."""
    x = dpcnn_block(convolution(x, *region), *blocks[0])
    for block in blocks[1:]:
        x = dpcnn_block(halved(x), *block)
    return x


def batch_norm(rows: Sequence[Array], gain: Array, bias: Array, epsilon: float = 1e-5) -> list[Array]:
    """Ioffe and Szegedy 2015, Algorithm 1, over all positions of all texts (as Conneau et al. 2017, §3)."""
    everything = np.concatenate(rows)
    mean, variance = everything.mean(axis=0), everything.var(axis=0)
    return [(x - mean) / np.sqrt(variance + epsilon) * gain + bias for x in rows]


def k_max(x: Array, k: int) -> Array:
    """Conneau et al. 2017, §3: the k largest values of each channel of (L, D) in text order; returns (k, D).

    A text with fewer than k positions returns all of them, followed by zeros.
    """
    out = np.zeros((k, x.shape[1]))
    for channel in range(x.shape[1]):
        largest = sorted(range(len(x)), key=lambda i: -x[i, channel])[:k]
        out[: len(largest), channel] = [x[i, channel] for i in sorted(largest)]
    return out


def attention_pool(states: Array, w: Array) -> Array:
    """Zhou et al. 2016, Eq. 9–12: M = tanh(H), α = softmax(wᵀM), r = Hαᵀ, h* = tanh(r); (L, D), (D,) to (D,)."""
    alpha = softmax(np.tanh(states) @ w)
    return np.tanh(alpha @ states)


def coordinates(length: int, step: int, width: int) -> Array:
    """Dehghani et al. 2019, Eq. 6, 7: sinusoids of the position i = 1..m plus those of the step t; (m, d)."""
    table = sinusoids(max(length, step) + 1, width)
    return np.asarray(table[1 : length + 1] + table[step])


def halting(chances: Sequence[float], epsilon: float) -> tuple[int, float, list[float]]:
    """Graves 2016, §2: N = min{n : Σ h ≥ 1 − ε}, at most len(chances); R = 1 − Σ_{n<N} h; p = h before N, R at N."""
    total = 0.0
    for n, h in enumerate(chances, 1):
        if total + h >= 1 - epsilon or n == len(chances):
            return n, 1 - total, [*chances[: n - 1], 1 - total]
        total += h
    raise ValueError("no step")


def universal(
    x: Array, step: Callable[[Array], Array], chance: Callable[[Array], Array], steps: int, epsilon: float
) -> tuple[Array, float]:
    """Dehghani et al. 2019, §2.2 with Graves 2016: the states (L, D) and the mean ponder cost N + R of the tokens.

    `step` is the shared block on the states plus their coordinates, `chance` the halting probability (L,) of new
    states. A halted token keeps its state while the others continue, and the others still attend to it.
    """
    state, history, chances = x, [], []
    for t in range(1, steps + 1):
        new = step(state + coordinates(*x.shape[:1], t, x.shape[1]))
        done = [bool(chances) and halting([c[i] for c in chances] + [0.0], epsilon)[0] < t for i in range(len(x))]
        state = np.where(np.array(done)[:, None], state, new)
        history.append(state)
        chances.append(chance(state))
    out, costs = [], []
    for i in range(len(x)):
        n, remainder, weights = halting([c[i] for c in chances], epsilon)
        out.append(sum(p * s[i] for p, s in zip(weights, history, strict=False)))
        costs.append(n + remainder)
    return np.stack(out), float(np.mean(costs))
