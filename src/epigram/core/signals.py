"""SIGTERM and Ctrl-C as exceptions, at once or at the end of a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception; a KeyboardInterrupt, so that `except Exception` does not catch it."""


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Install `handler` for the signals during the block; does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler_before in previous.items():
            signal.signal(number, handler_before)


def raise_interrupt(number: int, frame: FrameType | None = None) -> None:
    """Signal handler that raises Terminated for SIGTERM and KeyboardInterrupt for Ctrl-C."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def interrupt_waits() -> None:
    """Make Ctrl-C end a wait of the main thread at once. Call it after Polars' import, whose handler has SA_RESTART."""
    signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def defer_signals() -> Iterator[Callable[[], int]]:
    """Defer the first SIGTERM or Ctrl-C until the end of the block; a second one is raised at once.

    Yields a function that returns the number of the deferred signal, 0 if there is none, so that the block can save its
    state and end early.
    """
    received: list[int] = []

    def record(number: int, frame: FrameType | None) -> None:
        if received:
            raise_interrupt(number)
        received.append(number)

    with handle_signals(record, signal.SIGTERM, signal.SIGINT):
        yield lambda: received[0] if received else 0
    if received:
        raise_interrupt(received[0])
