"""Active waiting of OpenMP's threads, which PyTorch computes with on the CPU."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

SPIN_COUNT = "1000"  # docs/log.md


def limit_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let the threads of a process wait actively for a short time only; call it before PyTorch is imported.

    A thread that waits actively keeps a processor from the thread that it waits for if other processes run too. A value
    of the user's own stays.
    """
    environment.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
