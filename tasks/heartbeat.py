"""A run's sign of life: the event that Prefect's own thread gives, from one that stops at once.

Prefect's sleeps for a second at a time, and a flow waits for it at its end.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prefect import runtime
from prefect.events import emit_event
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY

EVENT = "prefect.flow-run.heartbeat"
EVERY = 30.0  # seconds


@contextmanager
def given() -> Iterator[None]:
    """Tell the server, while the context is open, that this flow's run is alive; where Prefect does, leave it to it."""
    if PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() is not None:
        yield
        return
    stop = threading.Event()
    # A thread begins without the settings and the run of its parent.
    threading.Thread(target=contextvars.copy_context().run, args=(_beat, stop), daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def _beat(stop: threading.Event) -> None:
    run = {"prefect.resource.id": f"prefect.flow-run.{runtime.flow_run.id}"}
    while not stop.is_set():
        emit_event(EVENT, resource=run | {"prefect.resource.name": str(runtime.flow_run.name)})
        stop.wait(EVERY)
