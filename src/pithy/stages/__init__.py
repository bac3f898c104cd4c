"""One thin file a stage of dvc.yaml."""

from __future__ import annotations

import sys
from types import TracebackType


def _quiet(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Ctrl-C while a stage still imports what it needs: one line, as later from its `main`."""
    if issubclass(kind, KeyboardInterrupt):
        print("error: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, at)


if sys.argv[:1] == ["-m"]:  # a stage is the program, not a module of another
    sys.excepthook = _quiet
