"""Features of linear models: their deviations, and, for fewer texts than features, the space that the texts span.

The weights that minimize a loss of X·w with an L2 penalty are a sum of rows of X (the representer theorem: Schölkopf et
al., 2001). So N coordinates of an orthonormal basis of the rows give the same weights as D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
NEGLIGIBLE = 1e-6  # deviation of a feature as a share of the largest one


def deviations(x: Floats) -> Floats:
    """Return the standard deviation of each feature of `x` (N, D), or 1 for a feature that is constant up to rounding.

    Dividing such a feature by its deviation would make rounding errors as large as the other features.
    """
    found = x.std(0)
    return np.where(found > NEGLIGIBLE * found.max(), found, 1.0)


def in_row_space(x: Floats) -> tuple[Floats, Floats | None]:
    """Return coordinates (N, N) of the rows of `x` (N, D) and the orthonormal basis (D, N); `x` and None if D ≤ N."""
    if x.shape[1] <= len(x):
        return x, None
    basis, coordinates = np.linalg.qr(x.T)
    return coordinates.T, basis


def from_row_space(weight: Floats, basis: Floats | None) -> Floats:
    """Return the weights (D, C) of the features from the weights (N, C) of the coordinates."""
    return weight if basis is None else basis @ weight
