"""The stages of dvc.yaml, one module per stage."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import TracebackType

from epigram.core.errors import exit_now, print_error
from epigram.core.memory_limit import is_near_limit


def _print_uncaught(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print one line for an error while a stage imports its dependencies, as `handle_errors` does for its `main`."""
    if os.environ.get("EPIGRAM_DEBUG") == "1":
        sys.__excepthook__(kind, error, at)
        return
    try:
        exit_now(print_error(error))
    except MemoryError:  # no memory for the line either; the parent process prints it
        os._exit(1)


def _print_unraisable(details: sys.UnraisableHookArgs) -> None:
    """Print the traceback of an exception that Python cannot raise, unless the process is out of memory."""
    with suppress(MemoryError):
        if not is_near_limit():
            sys.__unraisablehook__(details)


if sys.argv[:1] == ["-m"]:  # the stage is run with python -m, not imported
    sys.excepthook, sys.unraisablehook = _print_uncaught, _print_unraisable
    if sys.platform == "linux" and "DVC_STAGE" in os.environ:  # only under DVC: a user may start a stage with nohup
        from epigram.core.supervisor import start_supervisor

        start_supervisor()
