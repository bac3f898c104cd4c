"""Tables from the Hugging Face hub and from SQL databases, written as parquet files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import polars as pl

from epigram.core.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.core.extras import install_command
from epigram.data.sources.access import (
    check_parameters,
    check_sqlite_file,
    expand_variables,
    mask_secrets,
    only_allowed_variables,
    redact_address,
)
from epigram.data.sources.source import DATABASE_PREFIXES, DATABASE_SCHEMES

HUB_SCHEME = "hf://"
READ_ONLY_QUERY = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(?:SELECT|VALUES|WITH|TABLE)\b", re.IGNORECASE | re.DOTALL
)
QUERY_ERRORS = {"ProgrammingError", "NotSupportedError", "DataError"}
# SQLSTATE classes after which a retry may succeed: connection, rollback, resources and shutdown.
TEMPORARY_STATES = ("08", "40", "53", "57P")
# Messages without a SQLSTATE: of a database that is busy, and about an address or a user that a server rejects.
BUSY = re.compile(r"locked|busy|starting up|shutting down|too many|connection slots|recovery mode|administrator")
REJECTED = re.compile(r"FATAL:|invalid|unrecognized|not supported|does not exist")
SCANNERS: dict[str, Callable[[str], pl.LazyFrame]] = {
    ".parquet": pl.scan_parquet,
    ".csv": pl.scan_csv,
    ".jsonl": pl.scan_ndjson,
}


class EmptyTableError(DataError):
    """Error for a query, or a file of the hub, that has no rows."""


def is_table_address(address: str) -> bool:
    """Return whether the address is one of the hub or a database, which is queried and not downloaded as a file."""
    return address.startswith((HUB_SCHEME, *DATABASE_PREFIXES))


def write_table(address: str, query: str | None, target: Path, root: Path = Path()) -> None:
    """Write the hub's files or the result of the query to the parquet file `target`; `root` is the project folder.

    Raises SourceUnavailableError if the hub or the database cannot be reached, ParameterError for an invalid query or
    address, InputMissingError for a missing SQLite file, DataError for a query that fails, EmptyTableError for no rows.
    """
    with only_allowed_variables():
        table = _read_hub(address) if address.startswith(HUB_SCHEME) else _read_database(address, query or "", root)
    if table.is_empty():
        raise EmptyTableError(f"{redact_address(address)} has no rows")
    table.write_parquet(target)


def _read_hub(address: str) -> pl.DataFrame:
    scan = SCANNERS.get(Path(address).suffix)
    if scan is None:
        raise ParameterError(f"{redact_address(address)} has an unsupported file type; expected {', '.join(SCANNERS)}")
    try:
        return scan(address).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = mask_secrets(" ".join(str(error).split())[:200], address)
        where = redact_address(address)
        raise SourceUnavailableError(f"{where} cannot be read from the hub ({reason}); check the network") from None


def _read_database(address: str, query: str, root: Path) -> pl.DataFrame:
    """Run the query; `address` may contain ${VARIABLE} to keep secrets out of files, and messages do not expand it."""
    check_parameters(address)
    full = expand_variables(address)
    if not READ_ONLY_QUERY.match(query):  # ATTACH and COPY, for example, can write
        raise ParameterError(f"{redact_address(address)}: the query must start with SELECT, WITH, VALUES or TABLE")
    if not full.startswith(DATABASE_SCHEMES):
        raise ParameterError(
            f"{redact_address(address)} is not a database address; expected sqlite:///FILE or postgresql://…"
        )
    if full.startswith("sqlite://"):
        file = check_sqlite_file(address, full, root)
        if not file.is_file():
            raise InputMissingError(f"{redact_address(address)}: the SQLite file is missing")
        # Pass the path that was checked, because the driver parses addresses in its own way.
        # mode=ro protects only this file: ATTACH could still write to another one.
        full = f"sqlite:///file:{quote(str(file.absolute()))}?mode=ro"
    with _translate_driver_errors(redact_address(address), full):
        return pl.read_database_uri(query, full, engine="adbc")


@contextmanager
def _translate_driver_errors(address: str, full: str) -> Iterator[None]:
    """Convert a driver's errors to this project's; only the driver's messages about the query are shown."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ParameterError(
            f"{address} needs a driver that is not installed ({error.name}); run: {install_command('sql')}"
        ) from None
    except Exception as error:  # each driver has its own exception classes
        kind = type(error).__name__
        if kind in QUERY_ERRORS:
            message = mask_secrets(str(error).partition("\n")[0], full)
            raise ParameterError(f"{address}: invalid query: {message}") from None
        if _is_temporary(error, kind, full):
            raise SourceUnavailableError(
                f"{address} cannot be queried ({kind}); check the address or try again later"
            ) from None
        if kind == "OperationalError" and REJECTED.search(str(error)) and not _state(error):
            raise ParameterError(f"{address}: the server rejects the address, the user or the password") from None
        message = mask_secrets(" ".join(str(error).split())[:300], full)
        raise DataError(f"{address}: the query fails: {message or kind}") from None


def _is_temporary(error: Exception, kind: str, full: str) -> bool:
    """Return whether a retry may succeed: the database is busy or, over a network, does not respond."""
    if state := _state(error):
        return state.startswith(TEMPORARY_STATES)
    if BUSY.search(str(error)):
        return True
    return kind == "OperationalError" and not full.startswith("sqlite://") and not REJECTED.search(str(error))


def _state(error: Exception) -> str:
    """Return the SQLSTATE of a driver's error, empty if it has none."""
    return str(getattr(error, "sqlstate", None) or "").strip("\0")
