"""Logistic regression of labels in an order, by adjacent-category logits with one vector of weights.

log P(k + 1) / P(k) = w·x + b: a text has the same odds for each step up, but for the bias of the step (Agresti,
Analysis of Ordinal Categorical Data, 2010, section 4.1). The logit of label k is k·(w·x) + b_k: an ordinary linear
layer, with as many free weights as a regression of two labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core import deadline

Floats = NDArray[np.floating[Any]]


def order_steps(classes: int) -> Floats:
    """Return the factor (C,) of the vector in the weights of each label: its place, counted from the middle."""
    return np.arange(classes) - (classes - 1) / 2


def regress_in_order(
    x: Floats, codes: NDArray[np.integer], steps: Floats, penalty: float, class_weights: Floats
) -> tuple[Floats, Floats]:
    """Return the vector w (D,) and a bias for each of the P labels that texts have, for texts `x` (N, D).

    `codes` (N,) number these labels, and their `steps` and `class_weights` are (P,). `penalty` is scikit-learn's C: the
    result minimizes C · Σ weight · loss + |w|² / 2.
    """
    from scipy.optimize import minimize

    rows, width = np.arange(len(codes)), x.shape[1]
    weights = penalty * class_weights[codes]

    def loss(values: Floats) -> tuple[float, Floats]:
        deadline.check()
        vector, biases = np.split(values, [width])
        logits = (x @ vector)[:, None] * steps + biases
        logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        apart = np.exp(logs)
        apart[rows, codes] -= 1.0
        apart *= weights[:, None]
        gradient = np.concatenate([x.T @ (apart @ steps) + vector, apart.sum(0)])
        return float(vector @ vector / 2 - weights @ logs[rows, codes]), gradient

    found = minimize(loss, np.zeros(width + len(steps)), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    vector, biases = np.split(found.x, [width])
    return vector, biases
