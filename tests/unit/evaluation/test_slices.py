"""Tests of test-set slices."""

from __future__ import annotations

import numpy as np
import pytest

from epigram.evaluation.metrics.scoring import RowScores
from epigram.evaluation.metrics.slices import length_slices, slices


def right(correct: np.ndarray) -> RowScores:
    return RowScores(correct[None].astype(float), np.ones((1, len(correct))))


@pytest.mark.parametrize("lengths", [np.arange(4, 61), np.repeat([3, 9], 50), np.array([5, 5, 5]), np.array([0, 1])])
def test_quarters_hold_every_row_once(lengths):
    parts = length_slices(lengths)
    assert (np.sum([chosen for _, chosen in parts], axis=0) == 1).all()
    assert 1 <= len(parts) <= 4


def test_quarters_are_about_equal_and_named_by_their_bounds():
    parts = length_slices(np.arange(1, 101))
    assert [name for name, _ in parts] == [
        f"{a} to {b} characters" for a, b in ((1, 25), (26, 50), (51, 75), (76, 100))
    ]


def test_texts_of_one_length_make_one_slice():
    assert [name for name, _ in length_slices(np.full(9, 7))] == ["7 characters"]


def test_leaked_rows_are_scored_apart():
    in_train = np.arange(100) < 30
    found = slices(right(in_train), ["x"] * 100, in_train, resamples=100, confidence=0.95)
    leak = {part.name: (part.rows, part.score.value) for part in found if part.kind == "leak"}
    assert leak == {"also in train": (30, 1.0), "not in train": (70, 0.0)}


def test_without_a_leak_there_is_no_leak_slice():
    found = slices(right(np.ones(8)), list("abcdefgh"), np.zeros(8, bool), resamples=50, confidence=0.95)
    assert {part.kind for part in found} == {"length"}


def test_a_fully_leaked_test_set_has_no_empty_slice():
    found = slices(right(np.ones(4)), list("abcd"), np.ones(4, bool), resamples=50, confidence=0.95)
    assert [part.name for part in found if part.kind == "leak"] == ["also in train"]


def test_length_is_counted_in_characters():
    found = slices(
        right(np.ones(4)), ["好", "好吃", "好吃吗", "好吃吗😀"], np.zeros(4, bool), resamples=9, confidence=0.9
    )
    assert [part.name for part in found] == ["1 to 2 characters", "3 characters", "4 characters"]
