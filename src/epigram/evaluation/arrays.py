"""Array types of this package and the letters of their shapes.

K seeds, N rows of a split, C labels of the corpus, T words of a split, S token labels, R bootstrap resamples,
U distinct rows, B bins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
    """Return `numerator / denominator`, with 0 where the denominator is 0."""
    top, below = np.broadcast_arrays(numerator, denominator)
    return np.asarray(np.divide(top, below, out=np.zeros(top.shape), where=below != 0))
