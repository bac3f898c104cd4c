"""The database of a served Prefect: PostgreSQL where DATABASE or DATABASE_FILE gives an address, SQLite otherwise."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from pithy.errors import InputMissingError, ParameterError, SourceUnavailableError
from pithy.values import shown

if TYPE_CHECKING:
    from sqlalchemy import URL

DRIVER = "postgresql+asyncpg"
PATIENCE = 10.0  # seconds for an answer


def address() -> str:
    """Take the address out of the environment: DATABASE, or the content of the file that DATABASE_FILE names.

    Empty without either. Raises ParameterError where both are set or others can read the file, InputMissingError where
    there is no file.
    """
    value, file = os.environ.pop("DATABASE", ""), os.environ.pop("DATABASE_FILE", "")
    if not file:
        return value
    if value:
        raise ParameterError("DATABASE and DATABASE_FILE are both set: unset one")
    path = Path(file)
    if not path.is_file():
        raise InputMissingError(f"DATABASE_FILE: there is no file {path}")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ParameterError(f"DATABASE_FILE: others can read {path}: run chmod 600 {path}")
    return path.read_text(encoding="utf-8").strip()


def checked(address: str) -> str:
    """`address`, which answers. Raises ParameterError or SourceUnavailableError, whose lines hold no password."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):  # whose words may hold the password
        raise ParameterError(f"DATABASE is no address: {DRIVER}://user:password@host/name is allowed") from None
    if url.drivername != DRIVER:
        raise ParameterError(
            f"DATABASE began with {url.drivername}: {DRIVER}://user:password@host/name is allowed"
        ) from None
    asyncio.run(_ask(url, f"{url.host or url.query.get('host', 'localhost')}, {url.database}"))
    return address


async def _ask(url: URL, where: str) -> None:
    import asyncpg
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    from sqlalchemy.ext.asyncio import create_async_engine

    try:
        engine = create_async_engine(url, connect_args={"timeout": PATIENCE})
        async with engine.connect():
            pass
        await engine.dispose()
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise ParameterError(f"DATABASE ({where}) is refused: {error}") from None
    except (ArgumentError, TypeError, ValueError, OverflowError):  # of the driver, whose words may hold a password
        options = f", options {', '.join(map(shown, sorted(url.query)))}" if url.query else ""
        raise ParameterError(
            f"DATABASE ({where}{options}): an option is unknown, or it or the port has a value that is not allowed"
        ) from None
    except (OSError, asyncpg.PostgresError, SQLAlchemyError) as error:  # TimeoutError is an OSError
        why = str(error).partition("\n")[0] or type(error).__name__
        raise SourceUnavailableError(f"DATABASE ({where}) does not answer: {why}: is it running?") from None
