"""Tests of the limits of what is shown of data with many labels."""

from __future__ import annotations

import pytest

from epigram.core.limits import list_names, most_frequent


@pytest.mark.parametrize(
    ("counts", "limit", "places"),
    [
        ([5, 1, 6, 3], 2, [0, 2]),
        ([1, 6, 2, 5], 3, [1, 2, 3]),
        ([1, 2, 2, 2], 2, [1, 2]),  # of equal counts, the first
        ([0, 0, 7, 0], 2, [0, 2]),
        ([3, 1], 2, [0, 1]),
        ([3, 1], 5, [0, 1]),
        ([], 5, []),
    ],
)
def test_the_largest_counts_are_returned_in_their_order(counts: list[int], limit: int, places: list[int]) -> None:
    assert most_frequent(counts, limit) == places


def test_sixty_classes_are_shown() -> None:
    assert most_frequent([1] * 61) == list(range(60))
    assert most_frequent([1, *[2] * 60]) == list(range(1, 61))


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", 2, "c"], "a, 2, …"), (["", "b"], ", b")]
)
def test_a_list_of_names_ends_with_dots_if_there_are_more(names: list[object], text: str) -> None:
    assert list_names(names, 2) == text
