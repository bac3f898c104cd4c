"""Start of a process: standard streams, limited threads of libraries, and imports without garbage collection."""

from __future__ import annotations

import codecs
import gc
import io
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from epigram.process.display import echo

STREAMS = ("stdin", "stdout", "stderr")  # descriptors 0, 1 and 2


def open_streams() -> None:
    """Open each closed standard stream on the null device, and let output escape characters that its encoding lacks.

    Otherwise the next file that is opened gets the descriptor of the closed stream, and a library may print into it.
    The escapes are JSON's, so that printed JSON stays valid.
    """
    closed = [name for name in STREAMS if getattr(sys, name) is None]
    for name in closed:
        descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free one, which is that of the stream
        os.set_inheritable(descriptor, True)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))
    codecs.register_error("escape", _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="escape")
    if "stdout" in closed:
        echo("note: the output is discarded, because stdout is closed", file=sys.stderr)


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Error handler of an encoder: the UTF-16 units of characters as escapes such as \\ud83d."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end


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
