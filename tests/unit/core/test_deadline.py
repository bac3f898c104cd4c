"""The time at which work has to end."""

from __future__ import annotations

import time

import pytest

from epigram.core import deadline


def test_work_ends_only_after_its_time_and_only_in_the_block() -> None:
    deadline.check()
    with deadline.ends_at(time.monotonic() + 60):
        deadline.check()
        with deadline.ends_at(time.monotonic() - 1), pytest.raises(deadline.TimeIsOverError):
            deadline.check()
        deadline.check()
    with pytest.raises(ValueError, match="end"), deadline.ends_at(time.monotonic() - 1):
        raise ValueError("end")
    deadline.check()
