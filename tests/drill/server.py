"""One Prefect server for every trial that does not kill its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks import server


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """A server whose database is in `home`; its API's address."""
    os.environ["PREFECT_HOME"] = str(home)
    os.environ.pop(server.ADDRESS, None)
    api = server.start()
    try:
        api.wait()
        yield os.environ.pop(server.ADDRESS)
    finally:
        api.stop()
