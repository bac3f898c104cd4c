"""DVC's run cache for processes that work at the same time.

A reader of the run cache takes the unfinished file of another process for a damaged entry and deletes it, or finds that
a file which it has listed is gone. Both end a stage with FileNotFoundError. The second attempt succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from dvc.repo import Repo

MAX_ATTEMPTS = 10


def retry_on_conflict(repo: Repo) -> None:
    """Let the repository repeat the reading and the writing of an entry if a file of the run cache disappears."""
    cache: Any = repo.stage_cache
    for name in ("save", "restore"):
        setattr(cache, name, _retrying(getattr(cache, name), cache.cache_dir))


def _retrying(method: Callable[..., None], folder: str) -> Callable[..., None]:
    @wraps(method)
    def call(*arguments: Any, **options: Any) -> None:
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return method(*arguments, **options)
            except FileNotFoundError as error:
                if not str(error.filename).startswith(folder):
                    raise
        return method(*arguments, **options)

    return call
