"""Float64 reference of the training of fast_text: gradients of the softmax by hand, Adagrad with one rate per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.parity.reference.common import Array, softmax

Batch = Sequence[tuple[Sequence[int], int]]  # the rows of the table that each text adds up, and its class


class Weights(NamedTuple):
    """Vectors of words and n-grams (R, D), and weight (C, D) and bias (C,) of the linear layer."""

    table: Array
    weight: Array
    bias: Array


def gradients(weights: Weights, batch: Batch) -> Weights:
    """Joulin et al. 2017, Eq. 1: the gradient of the mean of −log softmax(B·A·x), where A·x is a mean of vectors."""
    found = Weights(*(np.zeros_like(each) for each in weights))
    for features, label in batch:
        state = np.mean([weights.table[row] for row in features], axis=0)
        error = softmax(weights.weight @ state + weights.bias)
        error[label] -= 1
        error /= len(batch)
        found.weight[:] += np.outer(error, state)
        found.bias[:] += error
        for row in features:
            found.table[row] += weights.weight.T @ error / len(features)
    return found


def trained(weights: Weights, batches: Sequence[Batch], rates: Sequence[float], epsilon: float) -> Weights:
    """Duchi et al. 2011, §1.1, with the mean square of each row's gradient in place of the square of each element."""
    weights = Weights(*(each.copy() for each in weights))
    sums = [np.zeros(len(each)) for each in weights]
    for batch, rate in zip(batches, rates, strict=True):
        for own, squares, gradient in zip(weights, sums, gradients(weights, batch), strict=True):
            for row in range(len(own)):
                squares[row] += np.mean(np.square(gradient[row]))
                if squares[row] > 0:
                    own[row] -= rate * gradient[row] / (np.sqrt(squares[row]) + epsilon)
    return weights
