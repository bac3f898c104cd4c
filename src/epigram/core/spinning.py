"""Active waiting of OpenMP's threads, which PyTorch computes with on the CPU."""

from __future__ import annotations

import os

SPIN_COUNT = "1000"  # docs/log.md


def limit_spinning() -> None:
    """Let threads wait actively for a short time only; call it before PyTorch is imported.

    A thread that waits actively keeps a processor from the thread that it waits for if other processes run too. A value
    of the user's own stays.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
