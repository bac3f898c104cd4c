"""SQLite database of a new Prefect server, copied from an empty one of the same version of Prefect.

A server that starts without a database creates it by all migrations of Prefect's history, which takes seconds. The
empty database is kept in the user's cache when a server has created one.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.core.files import rename_no_replace
from epigram.core.user_cache import user_cache

NAME = "prefect.db"
# Of a copy, without which the server creates a database; a RuntimeError is that of a user without a home folder.
FAILURES = (OSError, RuntimeError, sqlite3.Error)


def template() -> Path:
    """Return the path of the empty database of this version of Prefect."""
    return user_cache() / f"prefect-{version('prefect')}.db"


def create(home: Path) -> bool:
    """Copy the empty database into `home`; return whether the server has to create one because there is neither.

    A `home` with a database, or with what is left of one, is not changed.
    """
    if any(home.glob(f"{NAME}*")):
        return False
    home.mkdir(parents=True, exist_ok=True)
    with suppress(*FAILURES):
        if not template().is_file():
            return True
        _copy(template(), home / NAME)
    return False


def keep(home: Path) -> None:
    """Copy the database in `home`, which a server has just created, into the user's cache."""
    with suppress(*FAILURES):
        _copy(home / NAME, template())


def _copy(source: Path, target: Path) -> None:
    """Copy a database to `target`, unless another process has written that; no process sees a part of the copy."""
    with TemporaryDirectory(dir=target.parent) as folder:
        copy = Path(folder) / NAME
        read_only = f"{source.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(read_only, uri=True)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
            new.execute("pragma journal_mode = delete")  # readers of a write-ahead log leave files beside the database
            if new.execute("pragma quick_check").fetchall() != [("ok",)]:
                raise sqlite3.DatabaseError(f"{source} is damaged")
        rename_no_replace(copy, target)
