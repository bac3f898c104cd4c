"""Start of a process: limited threads of libraries, and no garbage collection while modules are imported."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Import without garbage collection, which finds next to nothing.

    It takes a third of the time of Prefect's import and a sixth of PyTorch's. What exists at the end lives until the
    process ends and is never searched again.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


# A thread that waits actively keeps a processor from the thread that it waits for if other processes run too.
# OpenBLAS's threads wait for each other at every iteration of a small fit, which then takes up to 20 times as long.
DEFAULTS = {"GOMP_SPINCOUNT": "1000", "OPENBLAS_NUM_THREADS": "1"}  # measured: docs/development/log.md


def limit_library_threads(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP's threads wait actively for a short time only, and OpenBLAS use one thread.

    The libraries read this when they are imported. Values of the user's own stay.
    """
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)
