"""Float64 reference of CNLE for one text without padding.

Liu et al. 2021, "Co-attention network with label embedding for text classification". X (L, d) is the text, Λ (C + 1, d)
the labels and `<eos>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.parity.reference.attention import scores
from tests.parity.reference.common import Array, layer_norm, linear, relu, softmax
from tests.parity.reference.lstm import Lstm, cell


@dataclass(frozen=True)
class Heads:
    """Parameters W^Q, W^K, W^V of each head, (d, d_p) each, and W^O (p d_p, d)."""

    query: Sequence[Array]
    key: Sequence[Array]
    value: Sequence[Array]
    out: Array


@dataclass(frozen=True)
class Decoder:
    """Label decoder: its LSTM cell on [e; r], W₁ and W₃ (d, d), W₂ (d, 2d)."""

    cell: Lstm
    w1: Array
    w2: Array
    w3: Array


@dataclass(frozen=True)
class Story:
    """Initial input of the decoder: X_fin (L, d), Λ_fin (C + 1, d), h and c (d,), and Λ_proj (C + 1, I) for e."""

    text: Array
    labels: Array
    h: Array
    c: Array
    projected: Array


def multi_head(q: Array, kv: Array, heads: Heads) -> Array:
    """MultiHead(Q, K, V) = [H_1; …; H_p] W^O with K = V, H_i = softmax(Q W_i^Q (K W_i^K)ᵀ / √d_p) V W_i^V."""
    each = [
        softmax(scores(q @ wq, kv @ wk)) @ (kv @ wv)
        for wq, wk, wv in zip(heads.query, heads.key, heads.value, strict=True)
    ]
    return np.asarray(np.concatenate(each, axis=1) @ heads.out)


def fuse(attended: Array, x: Array, feed: Sequence[tuple[Array, Array]], norm: tuple[Array, Array]) -> Array:
    """LN(FFN(attended) + x), with a ReLU inside the FFN."""
    return layer_norm(linear(relu(linear(attended, *feed[0])), *feed[1]) + x, *norm)


def step(e: Array, r: Array, h: Array, c: Array, story: Story, decoder: Decoder) -> tuple[Array, Array, Array]:
    """h_t, c_t and r_t from e_{t−1}, r_{t−1}, h_{t−1}, c_{t−1}."""
    h, c = cell(np.concatenate([e, r]), h, c, decoder.cell)
    a = softmax(story.text @ decoder.w1 @ h)
    return h, c, np.tanh(decoder.w2 @ np.concatenate([story.text.T @ a, h]))


def classify(h: Array, story: Story, decoder: Decoder, banned: Sequence[int] = ()) -> Array:
    """ŷ_t = softmax(Λ_fin W₃ h_t) over the allowed rows; 0 for `banned`."""
    raw = story.labels @ decoder.w3 @ h
    allowed = [row for row in range(len(raw)) if row not in banned]
    y = np.zeros(len(raw))
    y[allowed] = softmax(raw[allowed])
    return y


def first(story: Story, decoder: Decoder) -> tuple[Array, Array, Array]:
    """h_1, c_1, r_1: e₀ and r₀ are zero."""
    zero = np.zeros(story.projected.shape[1]), np.zeros(len(story.h))
    return step(*zero, story.h, story.c, story, decoder)


def one_step(story: Story, decoder: Decoder) -> Array:
    """Multi-class: ŷ_1 over the C classes, without `<eos>`, the last row."""
    eos = len(story.labels) - 1
    return classify(first(story, decoder)[0], story, decoder, [eos])[:eos]


def sequence(labels: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Return the targets of a multi-label text: its labels by descending frequency in training, then `<eos>`."""
    return [*sorted(labels, key=lambda label: (-counts[label], label)), len(counts)]


def loss(targets: Sequence[int], story: Story, decoder: Decoder) -> float:
    """−Σ_t log ŷ_{t, y_t}; each step follows the true label of the previous step (teacher forcing)."""
    total = 0.0
    h, c, r = first(story, decoder)
    for target in targets:
        total -= float(np.log(classify(h, story, decoder)[target]))
        h, c, r = step(story.projected[target], r, h, c, story, decoder)
    return total


def greedy(story: Story, decoder: Decoder, max_labels: int) -> tuple[list[int], Array]:
    """Return the labels, one per step without repetition, until `<eos>` or `max_labels`; and max_t ŷ_t (C,)."""
    eos = len(story.labels) - 1
    chosen: list[int] = []
    highest = np.zeros(eos + 1)
    h, c, r = first(story, decoder)
    for _ in range(max_labels):
        y = classify(h, story, decoder, chosen)
        highest = np.maximum(highest, y)
        best = int(y.argmax())
        if best == eos:
            break
        chosen.append(best)
        h, c, r = step(story.projected[best], r, h, c, story, decoder)
    return chosen, highest[:eos]


@dataclass(frozen=True)
class Path:
    """Partial result of the beam search: labels, Σ log ŷ, max_t ŷ_t, whether it has `<eos>`, and the decoder state."""

    labels: tuple[int, ...]
    score: float
    highest: Array
    ended: bool
    state: tuple[Array, Array, Array]


def beam(story: Story, decoder: Decoder, max_labels: int, width: int) -> tuple[list[int], Array]:
    """Like `greedy`, for the best of `width` paths by Σ log ŷ (no length normalization); ended paths are kept."""
    eos = len(story.labels) - 1
    paths = [Path((), 0.0, np.zeros(eos + 1), False, first(story, decoder))]
    for _ in range(max_labels):
        grown = [path for path in paths if path.ended]
        for path in paths:
            if not path.ended:
                grown += _continued(path, story, decoder)
        paths = sorted(grown, key=lambda path: -path.score)[:width]
    return list(paths[0].labels), paths[0].highest[:eos]


def _continued(path: Path, story: Story, decoder: Decoder) -> list[Path]:
    eos = len(story.labels) - 1
    h, c, r = path.state
    y = classify(h, story, decoder, path.labels)
    highest = np.maximum(path.highest, y)
    out = [Path(path.labels, path.score + float(np.log(y[eos])), highest, True, path.state)]
    for label in set(range(eos)) - set(path.labels):
        state = step(story.projected[label], r, h, c, story, decoder)
        out.append(Path((*path.labels, label), path.score + float(np.log(y[label])), highest, False, state))
    return out


def probabilities(chosen: Sequence[int], highest: Array) -> Array:
    """Return multi-label probabilities (C,): one half if chosen, plus half of the highest ŷ over the steps."""
    return (np.isin(np.arange(len(highest)), chosen) + highest) / 2
