"""jieba, quiet, with its cache where no other user can write: it is read as Python objects."""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any


def jieba() -> Any:
    """The package, with its taggers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its regular expressions are older than Python's rules
        import jieba as package
        import jieba.posseg
    package.setLogLevel(logging.CRITICAL)  # it can do without its cache, and says so with a traceback
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pithy"
    with suppress(OSError):  # without a cache it takes a second longer
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
    package.dt.tmp_dir = str(own)
    return package
