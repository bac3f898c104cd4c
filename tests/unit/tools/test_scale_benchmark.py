"""Tests that the fit of `benchmarks.scale` recovers the growth rate behind the points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.scale import Point, fit, grid


def points(noise: float = 0.0) -> list[Point]:
    random = np.random.default_rng(0)
    bare = [Point("x", *point, seconds=0.0) for point in grid(tiny=False)]
    factors = np.exp(noise * random.standard_normal(len(bare)))
    return [
        replace(p, seconds=1e-6 * p.rows * p.classes**0.25 * p.length**1.5 * factor)
        for p, factor in zip(bare, factors, strict=True)
    ]


def test_exact_points_are_fitted_without_error() -> None:
    exponents, error = fit(points())
    np.testing.assert_allclose(exponents, [1.0, 0.25, 1.5], atol=1e-9)
    assert error == pytest.approx(0.0, abs=1e-9)
