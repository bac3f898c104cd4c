"""One thin file a stage of dvc.yaml."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import TracebackType

from pithy.errors import exit_code, is_out_of_memory, message

PARENT_DIES = 1  # PR_SET_PDEATHSIG of Linux's prctl


def _quiet(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Ctrl-C, or no memory, while a stage still imports what it needs: one line, as later from its `main`."""
    if issubclass(kind, KeyboardInterrupt):
        print("error: interrupted", file=sys.stderr)
    elif is_out_of_memory(error):
        print(f"error: {message(error)}", file=sys.stderr)
        sys.exit(exit_code(error))
    else:
        sys.__excepthook__(kind, error, at)


def _end_with_parent() -> None:
    """When DVC is killed, its stage is told to end too: the next run would otherwise meet it at work."""
    import ctypes

    ctypes.CDLL(None).prctl(PARENT_DIES, int(signal.SIGTERM))
    if os.getppid() == 1 and b"dvc" not in Path("/proc/1/cmdline").read_bytes():
        os.kill(os.getpid(), signal.SIGTERM)  # it was killed before


if sys.argv[:1] == ["-m"]:  # a stage is the program, not a module of another
    sys.excepthook = _quiet
    if sys.platform == "linux" and "DVC_STAGE" in os.environ:  # not where a user starts the stage, perhaps with nohup
        _end_with_parent()
