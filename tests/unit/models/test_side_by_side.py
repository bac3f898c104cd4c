"""Threads that share batches: the results, the deadline, an error, and the number of threads afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
import torch

from epigram.core import deadline
from epigram.models.side_by_side import side_by_side

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_and(batches: Sequence[int]) -> tuple[int, list[int]]:
    return torch.get_num_threads(), list(batches)


@pytest.mark.parametrize(
    ("batches", "shares"),
    [
        ([], [(3, [])]),
        ([5], [(3, [5])]),  # a single batch uses all processors
        ([5, 6], [(1, [5]), (1, [6])]),
        ([1, 2, 3, 4, 5], [(1, [1, 4]), (1, [2, 5]), (1, [3])]),
    ],
)
def test_each_thread_has_a_share_and_one_processor(batches: list[int], shares: list[tuple[int, list[int]]]) -> None:
    assert side_by_side(threads_and, batches, CPU) == shares
    assert torch.get_num_threads() == 3


def test_another_device_gets_the_batches_one_after_the_other() -> None:
    assert side_by_side(threads_and, [1, 2], torch.device("meta")) == [(3, [1, 2])]


def test_a_thread_has_the_deadline_of_its_caller_and_gives_it_its_error() -> None:
    def check(_: Sequence[int]) -> None:
        deadline.check()

    with deadline.ends_at(time.monotonic() - 1), pytest.raises(deadline.TimeIsOverError):
        side_by_side(check, [1, 2], CPU)
    assert torch.get_num_threads() == 3
    assert side_by_side(check, [1, 2], CPU) == [None, None]
