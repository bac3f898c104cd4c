"""Tables that are asked for, not fetched as files: the Hugging Face hub and SQL databases, both written as parquet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import polars as pl

from pithy.corpus.source import DATABASES, QUERIED, hidden
from pithy.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError

HUB = "hf://"
VARIABLE = re.compile(r"\$\{(\w+)\}")
WRONG_QUERY = {"ProgrammingError", "NotSupportedError", "DataError"}
SCANS: dict[str, Callable[[str], pl.LazyFrame]] = {
    ".parquet": pl.scan_parquet,
    ".csv": pl.scan_csv,
    ".jsonl": pl.scan_ndjson,
}


def is_table(address: str) -> bool:
    """Whether the address is asked by a query, not fetched as a file."""
    return address.startswith((HUB, *QUERIED))


def write_table(address: str, query: str | None, target: Path) -> None:
    """Write what the hub's files or the query give to the parquet file `target`.

    Raises SourceUnavailableError where the hub or the database cannot be reached, ParameterError for a query or an
    address that is wrong, InputMissingError for an SQLite file that is not there, DataError for an empty answer.
    """
    table = _hub(address) if address.startswith(HUB) else _database(address, query or "")
    if table.is_empty():
        raise DataError(f"{hidden(address)} gives no rows")
    table.write_parquet(target)


def _hub(address: str) -> pl.DataFrame:
    scan = SCANS.get(Path(address).suffix)
    if scan is None:
        raise ParameterError(f"{address} is none of {', '.join(SCANS)}: name the data set's files")
    try:
        return scan(address).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SourceUnavailableError(f"{address} cannot be read from the hub ({reason}): look at the network") from None


def _database(address: str, query: str) -> pl.DataFrame:
    """`address` may hold ${VARIABLE}, so that no secret stands in a file; messages show it unexpanded."""
    expanded = VARIABLE.sub(_value, address)
    if not expanded.startswith(DATABASES):
        raise ParameterError(f"{hidden(address)} is no database address: sqlite:///FILE or postgresql://… is needed")
    if expanded.startswith("sqlite://") and not _sqlite_file(expanded).is_file():
        raise InputMissingError(f"{hidden(address)} names an SQLite file that is not there")
    with _translated(hidden(address), expanded):
        return pl.read_database_uri(query, expanded, engine="adbc")


def _value(variable: re.Match[str]) -> str:
    if (value := os.environ.get(variable[1])) is None:
        raise ParameterError(f"the environment variable {variable[1]} is not set, and a database address needs it")
    return value


def _sqlite_file(address: str) -> Path:
    return Path(unquote(address.removeprefix("sqlite://").partition("?")[0]).removeprefix("/"))


def _secrets(address: str) -> list[str]:
    """What of an address no message may show, as it stands there and as it is meant."""
    beyond = address.partition("://")[2]
    user, _, password = beyond.rpartition("@")[0].partition(":")
    values = [value for _, value in parse_qsl(beyond.partition("?")[2])]
    return [secret for each in (password, user, *values) for secret in (each, unquote(each)) if secret]


@contextmanager
def _translated(address: str, expanded: str) -> Iterator[None]:
    """Faults of a database as ours; of the driver's own words only those about the query are shown."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ParameterError(
            f"{address} needs a driver that is not installed ({error.name}): pip install 'pithy[sql]'"
        ) from None
    except Exception as error:  # each driver has its own classes
        kind = type(error).__name__
        if kind in WRONG_QUERY:
            words = str(error).partition("\n")[0]
            for secret in _secrets(expanded):
                words = words.replace(secret, "***")
            raise ParameterError(f"{address} does not understand the query: {words}") from None
        raise SourceUnavailableError(f"{address} cannot be asked ({kind}): look at the address, or try later") from None
