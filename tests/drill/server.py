"""Prefect server shared by all trials that do not kill their own one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epigram.runner.service import server


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """Run a server with its database in `home`; yield the URL of its API."""
    os.environ["PREFECT_HOME"] = str(home)
    os.environ.pop(server.API_URL, None)
    api = server.start()
    try:
        api.wait()
        yield os.environ.pop(server.API_URL)
    finally:
        api.stop()
