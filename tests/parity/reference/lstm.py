"""Float64 reference of the LSTM with a forget gate (Hochreiter and Schmidhuber 1997; Gers et al. 2000) for one text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.parity.reference.common import Array


@dataclass(frozen=True)
class Lstm:
    """Weights of one direction: rows of input gate, forget gate, candidate and output gate, h rows each.

    `inputs` (4h, I), `states` (4h, h), `bias` (4h,).
    """

    inputs: Array
    states: Array
    bias: Array


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^−x)."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def cell(x: Array, h: Array, c: Array, weights: Lstm) -> tuple[Array, Array]:
    """One step: x (I,), h and c (h,); returns the new h and c."""
    raw = weights.inputs @ x + weights.states @ h + weights.bias
    written, kept, candidate, shown = np.split(raw, 4)
    c = sigmoid(kept) * c + sigmoid(written) * np.tanh(candidate)
    return sigmoid(shown) * np.tanh(c), c


def one_way(x: Array, weights: Lstm) -> tuple[Array, Array, Array]:
    """Return the states (L, h) of a text (L, I), starting from zero, and the last h and c."""
    h = c = np.zeros(weights.states.shape[1])
    states = []
    for token in x:
        h, c = cell(token, h, c, weights)
        states.append(h)
    return np.stack(states), h, c


def bilstm(x: Array, ahead: Lstm, back: Lstm) -> tuple[Array, Array, Array]:
    """Return the concatenated states (L, d) of both directions and their last h and c (d,), backward at token 0."""
    there, there_h, there_c = one_way(x, ahead)
    again, again_h, again_c = one_way(x[::-1], back)
    states = np.concatenate([there, again[::-1]], axis=1)
    return states, np.concatenate([there_h, again_h]), np.concatenate([there_c, again_c])
