"""Heartbeat events of a flow run, sent by a thread that does not delay the end of the run.

Prefect's own heartbeat thread sleeps for a second at a time, and a flow waits for it at its end.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prefect import runtime
from prefect.events import emit_event
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY

from epigram.runner.service.prefect_adapter import HEARTBEAT_EVENT

INTERVAL = 30.0  # seconds


@contextmanager
def send_heartbeats() -> Iterator[None]:
    """Send heartbeat events for this flow run while the context is open, unless Prefect sends its own."""
    if PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() is not None:
        yield
        return
    stop = threading.Event()

    def send() -> None:
        run = {"prefect.resource.id": f"prefect.flow-run.{runtime.flow_run.id}"}
        while not stop.is_set():
            emit_event(HEARTBEAT_EVENT, resource=run | {"prefect.resource.name": str(runtime.flow_run.name)})
            stop.wait(INTERVAL)

    # A new thread does not inherit the context of its parent (settings and flow run).
    threading.Thread(target=contextvars.copy_context().run, args=(send,), daemon=True).start()
    try:
        yield
    finally:
        stop.set()
