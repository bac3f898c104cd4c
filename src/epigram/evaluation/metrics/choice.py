"""Choice of one label by probabilities: the most probable label, or the label with the least expected price."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Ints


def choose_labels(probabilities: NDArray[Any], prices: Any = None) -> Ints:
    """Return the chosen label for probabilities (..., C); of equal ones, the first.

    `prices` (C, C) belong to the metrics `cost` and `mean_absolute_error`, rows gold and columns predicted: the choice
    has the least Σ p·price.
    """
    if prices is None:
        return np.asarray(probabilities.argmax(-1))
    return np.asarray((probabilities.astype(float) @ np.asarray(prices)).argmin(-1))
