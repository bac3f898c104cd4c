"""The thresholds that turn probabilities into labels, where a text may have several."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def tuned_thresholds(gold: NDArray[np.bool_], probabilities: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Threshold (C,) of every label with the best F1 on these rows; a row has the label where p > threshold.

    `gold` and `probabilities` are (N, C). Tune on development data. A label without a gold row keeps 0.5.
    """
    order = np.argsort(-probabilities, axis=0, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=0)
    hits = np.take_along_axis(gold, order, axis=0).cumsum(0)
    taken = np.arange(1, len(gold) + 1)[:, None]
    f1 = 2 * hits / (taken + gold.sum(0))
    following = np.vstack([ranked[1:], np.zeros_like(ranked[:1])])
    # A cut between two equal probabilities cannot be made.
    best = np.where(ranked > following, f1, -1.0).argmax(0)
    column = np.arange(gold.shape[1])
    middle = (ranked[best, column] + following[best, column]) / 2
    return np.where(gold.any(0), middle, np.asarray(0.5, middle.dtype))
