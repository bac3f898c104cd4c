"""Limit of the time in which a process prints nothing: one that hangs is ended and can be tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType


class SilenceLimit:
    """While its context is open, calls `end` once if `heard` yields no line for `seconds`; None: never."""

    def __init__(self, seconds: float | None, end: Callable[[], None]) -> None:
        self.seconds, self.exceeded = seconds, False
        self._end, self._last, self._closed = end, time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def heard(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield each of the `lines`, and note its time."""
        for line in lines:
            self._last = time.monotonic()
            yield line

    def __enter__(self) -> SilenceLimit:
        if self.seconds is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()

    def _watch(self) -> None:
        assert self.seconds is not None
        while (left := self._last + self.seconds - time.monotonic()) > 0:
            if self._closed.wait(left):
                return
        self.exceeded = True
        self._end()
