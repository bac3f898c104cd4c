"""Database of the served Prefect: PostgreSQL if DATABASE or DATABASE_FILE is set, otherwise SQLite."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.config_types import shown
from epigram.core.errors import InputMissingError, ParameterError, SourceUnavailableError

if TYPE_CHECKING:
    from sqlalchemy import URL

DRIVER = "postgresql+asyncpg"
CONNECT_TIMEOUT = 10.0  # seconds to wait for a connection


def pop_address() -> str:
    """Remove the address from the environment and return it; return an empty string if none is set.

    The address is the value of DATABASE, or the content of the file that DATABASE_FILE names. Raises ParameterError if
    both are set or other users can read the file, InputMissingError if the file is missing.
    """
    value, file = os.environ.pop("DATABASE", ""), os.environ.pop("DATABASE_FILE", "")
    if not file:
        return value
    if value:
        raise ParameterError("DATABASE and DATABASE_FILE are both set; unset one of them")
    path = Path(file)
    if not path.is_file():
        raise InputMissingError(f"DATABASE_FILE: {path} does not exist")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ParameterError(f"DATABASE_FILE: other users can read {path}; run chmod 600 {path}")
    return path.read_text(encoding="utf-8").strip()


def check_connection(address: str) -> str:
    """Test the connection to `address` and return `address`.

    Raises ParameterError or SourceUnavailableError; their messages contain no password.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):  # the message may contain the password
        raise ParameterError(f"DATABASE is not a valid URL; expected {DRIVER}://user:password@host/name") from None
    if url.drivername != DRIVER:
        raise ParameterError(
            f"DATABASE begins with {url.drivername}; expected {DRIVER}://user:password@host/name"
        ) from None
    asyncio.run(_connect(url, f"{url.host or url.query.get('host', 'localhost')}, {url.database}"))
    return address


async def _connect(url: URL, where: str) -> None:
    import asyncpg
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    from sqlalchemy.ext.asyncio import create_async_engine

    try:
        engine = create_async_engine(url, connect_args={"timeout": CONNECT_TIMEOUT})
        async with engine.connect():
            pass
        await engine.dispose()
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise ParameterError(f"DATABASE ({where}): the server rejected the connection: {error}") from None
    except (ArgumentError, TypeError, ValueError, OverflowError):  # driver errors; the message may contain a password
        options = f", options {', '.join(map(shown, sorted(url.query)))}" if url.query else ""
        raise ParameterError(
            f"DATABASE ({where}{options}): an option is unknown, or the value of an option or of the port is invalid"
        ) from None
    except (OSError, asyncpg.PostgresError, SQLAlchemyError) as error:  # TimeoutError is an OSError
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise SourceUnavailableError(
            f"cannot connect to DATABASE ({where}): {reason}; check that the server is running"
        ) from None
