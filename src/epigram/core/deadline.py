"""The time at which work in this thread has to end; long computations check it between their steps.

Only a search sets one. Without it, nothing reads a clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from epigram.core.errors import EpigramError

_end: ContextVar[float | None] = ContextVar("end", default=None)


class TimeIsOverError(EpigramError):
    """Work that has not ended in its time."""

    code = 75


@contextmanager
def ends_at(moment: float) -> Iterator[None]:
    """Let `check` raise in the block after the monotonic time `moment`."""
    token = _end.set(moment)
    try:
        yield
    finally:
        _end.reset(token)


def check() -> None:
    """Raise TimeIsOverError if the work has to end."""
    if (end := _end.get()) is not None and time.monotonic() > end:
        raise TimeIsOverError("the time is over")
