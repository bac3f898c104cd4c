"""Fits of linear models on fewer texts than features, in the space that the texts span.

The weights that minimize a loss of X·w with an L2 penalty are a sum of rows of X (the representer theorem: Schölkopf et
al., 2001). So N coordinates of an orthonormal basis of the rows give the same weights as D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def in_row_space(x: Floats) -> tuple[Floats, Floats | None]:
    """Return coordinates (N, N) of the rows of `x` (N, D) and the orthonormal basis (D, N); `x` and None if D ≤ N."""
    if x.shape[1] <= len(x):
        return x, None
    basis, coordinates = np.linalg.qr(x.T)
    return coordinates.T, basis


def from_row_space(weight: Floats, basis: Floats | None) -> Floats:
    """Return the weights (D, C) of the features from those of the coordinates (N, C)."""
    return weight if basis is None else basis @ weight
