"""Comparison of a score difference with a limit, with a tolerance for rounding errors."""

from __future__ import annotations

PRECISION = 1e-9  # far above the rounding error of a score, far below the effect of one text


def clearly_above(a: float, b: float) -> bool:
    """Return whether `a` exceeds `b` by more than rounding errors: 0.62 − 0.60 is not clearly above 0.02."""
    return a > b + PRECISION
