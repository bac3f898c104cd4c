"""Tests of the time until an accuracy is reached, and of the lines of the benchmarks that need a GPU."""

from __future__ import annotations

from benchmarks.time_to_score import Curve

SECONDS = [1.0, 2.0, 3.0, 4.0, 5.0]


def test_an_accuracy_is_reached_at_the_first_of_two_evaluations_in_a_row() -> None:
    curve = Curve(SECONDS, [0.5, 0.8, 0.7, 0.8, 0.9], 0.6)
    assert curve.reached(0.8) == 4.0
    assert curve.reached(0.5) == 1.0
    assert curve.reached(0.9) is None
