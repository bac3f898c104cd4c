"""Limit of silence: when it ends a process, and when it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from epigram.runner.dvc.silence import SilenceLimit


def lines(*pauses: float) -> Iterator[str]:
    for pause in pauses:
        time.sleep(pause)
        yield "line"


def test_it_ends_a_process_once_after_the_last_line() -> None:
    ended, calls = threading.Event(), list[float]()

    def end() -> None:
        calls.append(time.monotonic())
        ended.set()

    with SilenceLimit(0.3, end) as limit:
        list(limit.heard(lines(0.1, 0.1)))
        last = time.monotonic()
        assert ended.wait(5)
        time.sleep(0.5)
    assert limit.exceeded and len(calls) == 1
    assert calls[0] - last >= 0.25


def test_lines_that_come_in_time_and_a_closed_context_end_nothing() -> None:
    calls: list[str] = []
    with SilenceLimit(0.5, lambda: calls.append("ended")) as limit:
        assert list(limit.heard(lines(*[0.1] * 8))) == ["line"] * 8  # longer than the limit, all together
    time.sleep(0.7)
    with SilenceLimit(None, lambda: calls.append("ended")) as unlimited:
        time.sleep(0.2)
    assert not calls and not limit.exceeded and not unlimited.exceeded
