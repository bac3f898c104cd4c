"""Folder of files that can be made again, shared by all projects of a user."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def user_cache() -> Path:
    """Return the folder, which only the user can read; it does not exist if it cannot be created."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epigram"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
