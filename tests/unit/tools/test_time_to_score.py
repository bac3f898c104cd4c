"""Tests of the time until an accuracy is reached, and of the lines of the benchmarks that need a GPU."""

from __future__ import annotations

from benchmarks.gpu import FAMILIES
from benchmarks.run import gpu_lines
from benchmarks.time_to_score import Curve, summary

SECONDS = [1.0, 2.0, 3.0, 4.0, 5.0]


def test_an_accuracy_is_reached_at_the_first_of_two_evaluations_in_a_row() -> None:
    curve = Curve(SECONDS, [0.5, 0.8, 0.7, 0.8, 0.9], 0.6)
    assert curve.reached(0.8) == 4.0
    assert curve.reached(0.5) == 1.0
    assert curve.reached(0.9) is None


def test_the_summary_has_the_mean_of_the_trainings_that_reached_it() -> None:
    curves = [Curve(SECONDS, [0.9] * 5, 0.6), Curve(SECONDS, [0.1, 0.1, 0.9, 0.9, 0.9], 0.7), Curve([1.0], [0.9], 0.8)]
    assert summary(curves, 0.8) == {"reached": "2 of 3", "seconds": 2.0, "test": 0.7}
    assert summary(curves[2:], 0.8) == {"reached": "0 of 1", "seconds": None, "test": 0.8}


def test_benchmarks_of_a_gpu_are_named_as_not_measured() -> None:
    assert gpu_lines("cpu").splitlines() == [f"GPU, {family}: not measured (no GPU)" for family in FAMILIES]
    assert "run python -m benchmarks.gpu" in gpu_lines("NVIDIA H100")
