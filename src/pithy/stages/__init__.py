"""One thin file a stage of dvc.yaml."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from pithy.errors import exit_code, leave, message


def _quiet(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """A fault while a stage still imports what it needs: one line, as later from its `main`."""
    if os.environ.get("PITHY_DEBUG") == "1":
        sys.__excepthook__(kind, error, at)
    else:
        print(f"error: {message(error)}", file=sys.stderr)
        leave(exit_code(error))


if sys.argv[:1] == ["-m"]:  # a stage is the program, not a module of another
    sys.excepthook = _quiet
    if sys.platform == "linux" and "DVC_STAGE" in os.environ:  # not where a user starts the stage, perhaps with nohup
        from pithy.parent import stand_between

        stand_between()
