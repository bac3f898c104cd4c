"""Start of a process: standard streams, limited threads of libraries, and imports without garbage collection."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager

STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


def open_streams() -> None:
    """Open each closed standard stream on the null device, and let output escape characters that its encoding lacks."""
    for name, mode in STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
WAITING = {"GOMP_SPINCOUNT": "1000"}  # measured: docs/development/log.md
DEFAULTS = {**WAITING, "OPENBLAS_NUM_THREADS": "1"}


def limit_library_threads(
    environment: MutableMapping[str, str] = os.environ, limits: Mapping[str, str] = DEFAULTS
) -> None:
    """Let OpenMP's threads wait actively for a short time only, and OpenBLAS use one thread.

    The libraries read this when they are imported. Values of the user's own stay. The Python API sets only the limits
    WAITING: in the process of a user, NumPy keeps its threads.
    """
    for name, value in limits.items():
        environment.setdefault(name, value)
