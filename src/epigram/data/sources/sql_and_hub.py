"""Tables from the Hugging Face hub and from SQL databases, written as parquet files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import polars as pl

from epigram.core.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.data.sources.access import check_parameters, expanded, hidden, masked, only_allowed_variables, sqlite_file
from epigram.data.sources.source import DATABASES, QUERIED

HUB = "hf://"
READS = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(?:SELECT|VALUES|WITH|TABLE)\b", re.IGNORECASE | re.DOTALL)
WRONG_QUERY = {"ProgrammingError", "NotSupportedError", "DataError"}
SCANS: dict[str, Callable[[str], pl.LazyFrame]] = {
    ".parquet": pl.scan_parquet,
    ".csv": pl.scan_csv,
    ".jsonl": pl.scan_ndjson,
}


def is_table(address: str) -> bool:
    """Return whether the address is one of the hub or a database, which is queried and not downloaded as a file."""
    return address.startswith((HUB, *QUERIED))


def write_table(address: str, query: str | None, target: Path, root: Path = Path()) -> None:
    """Write the hub's files or the result of the query to the parquet file `target`; `root` is the project folder.

    Raises SourceUnavailableError if the hub or the database cannot be reached, ParameterError for an invalid query or
    address, InputMissingError for a missing SQLite file, DataError for an empty result.
    """
    with only_allowed_variables():
        table = _hub(address) if address.startswith(HUB) else _database(address, query or "", root)
    if table.is_empty():
        raise DataError(f"{hidden(address)} gives no rows")
    table.write_parquet(target)


def _hub(address: str) -> pl.DataFrame:
    scan = SCANS.get(Path(address).suffix)
    if scan is None:
        raise ParameterError(f"{hidden(address)} is none of {', '.join(SCANS)}: name the data set's files")
    try:
        return scan(address).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = masked(" ".join(str(error).split())[:200], address)
        where = hidden(address)
        raise SourceUnavailableError(f"{where} cannot be read from the hub ({reason}): look at the network") from None


def _database(address: str, query: str, root: Path) -> pl.DataFrame:
    """Run the query; `address` may contain ${VARIABLE} to keep secrets out of files, and messages do not expand it."""
    check_parameters(address)
    full = expanded(address)
    _check_query(query, address)
    if not full.startswith(DATABASES):
        raise ParameterError(f"{hidden(address)} is no database address: sqlite:///FILE or postgresql://… is needed")
    if full.startswith("sqlite://"):
        file = sqlite_file(address, full, root)
        if not file.is_file():
            raise InputMissingError(f"{hidden(address)} names an SQLite file that is not there")
        # Pass the path that was checked, because the driver parses addresses in its own way.
        # mode=ro protects only this file: ATTACH could still write to another one.
        full = f"sqlite:///file:{quote(str(file.absolute()))}?mode=ro"
    with _translated(hidden(address), full):
        return pl.read_database_uri(query, full, engine="adbc")


def _check_query(query: str, address: str) -> None:
    """Raise ParameterError unless the query starts as one that only reads; ATTACH and COPY, for example, can write."""
    if not READS.match(query):
        raise ParameterError(f"{hidden(address)}: the query must begin with SELECT, WITH, VALUES or TABLE")


@contextmanager
def _translated(address: str, full: str) -> Iterator[None]:
    """Convert a driver's errors to this project's; only the driver's messages about the query are shown."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ParameterError(
            f"{address} needs a driver that is not installed ({error.name}): pip install 'epigram[sql]'"
        ) from None
    except Exception as error:  # each driver has its own exception classes
        kind = type(error).__name__
        if kind in WRONG_QUERY:
            words = masked(str(error).partition("\n")[0], full)
            raise ParameterError(f"{address} does not understand the query: {words}") from None
        raise SourceUnavailableError(f"{address} cannot be asked ({kind}): look at the address, or try later") from None
