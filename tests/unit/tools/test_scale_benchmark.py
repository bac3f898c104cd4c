"""Tests that the fit of `benchmarks.scale` recovers the growth rate behind the points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.scale import Point, fit, grid, timed_rows


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


def test_the_error_is_that_of_each_point_under_the_fit_to_the_others() -> None:
    every = points(0.1)
    exponents, error = fit(every)
    np.testing.assert_allclose(exponents, [1.0, 0.25, 1.5], atol=0.15)
    rest = []
    for number, left in enumerate(every):
        others = every[:number] + every[number + 1 :]
        columns = np.array([[1.0, *np.log([p.rows, p.classes, p.length])] for p in [*others, left]])
        found, *_ = np.linalg.lstsq(columns[:-1], np.log([p.seconds for p in others]), rcond=None)
        rest.append(np.log(left.seconds) - columns[-1] @ found)
    assert error == pytest.approx(np.exp(np.sqrt(np.mean(np.square(rest)))) - 1)


def test_the_points_reach_a_million_rows_and_a_thousand_classes() -> None:
    sizes = np.array(grid(tiny=False))
    assert len(sizes) == len(set(grid(tiny=False))) >= 30
    assert sizes.max(0).tolist() == [1_000_000, 1_000, 256]


def test_the_page_names_the_points_that_are_timed_on_all_rows() -> None:
    points = grid(tiny=False)
    whole = [(rows, length) for rows, _, length in points if timed_rows(rows, length) == rows]
    assert (len(points), len(whole), set(whole)) == (32, 9, {(1_000, 16), (1_000, 64), (4_000, 16)})
    assert [timed_rows(1_000_000, length) for length in (16, 64, 256)] == [5_000, 1_250, 312]
