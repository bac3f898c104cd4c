"""SIGTERM and Ctrl-C as exceptions, at once or at the end of a block, and as the end of the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDINGS = {  # exit code and message of each signal
    signal.SIGTERM: (75, "stopped by SIGTERM; run it again to resume"),
    signal.SIGINT: (130, "interrupted"),
}
RESEND_SECONDS = 0.05


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception; a KeyboardInterrupt, so that `except Exception` does not catch it."""


raised: list[KeyboardInterrupt] = []  # what signal handlers have raised in this process, the latest last


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
    raised.append(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
    raise raised[-1]


def end_process(number: int, frame: FrameType | None = None) -> NoReturn:
    """Signal handler that ends the process at once, with the message and the exit code of the signal."""
    code, text = ENDINGS[signal.Signals(number)]
    os.write(2, f"error: {text}\n".encode())
    os._exit(code)


@contextmanager
def end_on_signals() -> Iterator[None]:
    """End the process at once on SIGTERM or Ctrl-C during the block; for imports and waits with nothing to clean up.

    Python swallows an exception that a handler raises in a destructor or a callback, with a traceback, and goes on.
    Imports run many of them.
    """
    with handle_signals(end_process, *_not_ignored()):
        yield


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise Terminated or KeyboardInterrupt during the block, also within a block of `end_on_signals`."""
    with handle_signals(raise_interrupt, *_not_ignored()):
        yield


def _not_ignored() -> list[signal.Signals]:
    return [number for number in ENDINGS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def resend_swallowed() -> Iterator[None]:
    """Send a signal again during the block if Python swallowed its exception in a destructor or a callback."""
    previous = sys.unraisablehook

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            number = signal.SIGTERM if issubclass(ignored.exc_type, Terminated) else signal.SIGINT
            # sent from a thread, because the handler must not raise here again
            threading.Timer(RESEND_SECONDS, os.kill, (os.getpid(), number)).start()
        else:
            previous(ignored)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = previous


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
