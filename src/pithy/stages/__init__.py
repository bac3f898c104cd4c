"""One thin file a stage of dvc.yaml."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import TracebackType

from pithy.errors import leave, say
from pithy.memory import used_up


def _quiet(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """A fault while a stage still imports what it needs: one line, as later from its `main`."""
    if os.environ.get("PITHY_DEBUG") == "1":
        sys.__excepthook__(kind, error, at)
        return
    try:
        leave(say(error))
    except MemoryError:  # not even for the line: the parent says it
        os._exit(1)


def _quieter(fault: sys.UnraisableHookArgs) -> None:
    """What Python cannot raise is worth a traceback, but not where it is that memory ran out, which is said once."""
    with suppress(MemoryError):
        if not used_up():
            sys.__unraisablehook__(fault)


if sys.argv[:1] == ["-m"]:  # a stage is the program, not a module of another
    sys.excepthook, sys.unraisablehook = _quiet, _quieter
    if sys.platform == "linux" and "DVC_STAGE" in os.environ:  # not where a user starts the stage, perhaps with nohup
        from pithy.parent import stand_between

        stand_between()
