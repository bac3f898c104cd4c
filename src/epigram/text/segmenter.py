"""jieba without log output, with its cache in a folder that only the user can write.

jieba loads its cache as Python objects, so a cache from another user must not be trusted.
"""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any


def jieba() -> Any:
    """Return the jieba package with its taggers imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba's regular expressions raise warnings in current Python
        import jieba as package
        import jieba.posseg
    package.setLogLevel(logging.CRITICAL)  # without a usable cache jieba works, but logs a traceback
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epigram"
    with suppress(OSError):  # loading without a cache takes one second longer
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
    package.dt.tmp_dir = str(own)
    return package
