"""Fetch one address over HTTP: resumed, retried with growing delay, whole or not at all."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from pithy.corpus.source import hidden
from pithy.errors import InputMissingError, ParameterError, SourceUnavailableError
from pithy.settings import DownloadSettings

GONE = {404, 410}
LONGEST_PAUSE = 30.0  # seconds


class _StaleError(Exception):
    """What was fetched before does not fit what the server has."""


def download(address: str, target: Path, settings: DownloadSettings, pause: float = 1.0) -> None:
    """Fetch `address` to `target`; what a broken try left is continued by the next, in a later run too.

    `pause` is the first delay between tries in seconds, which doubles. Raises SourceUnavailableError after the last
    try, InputMissingError where the server says that there is no such file, ParameterError for an impossible address.
    """
    part = part_of(target)
    part.parent.mkdir(parents=True, exist_ok=True)
    fault: Exception = SourceUnavailableError("not tried")
    for attempt in range(settings.tries):
        if attempt:
            time.sleep(min(pause * 2 ** (attempt - 1), LONGEST_PAUSE))
        try:
            _continue(address, part, settings.timeout)
        except _StaleError as error:
            part.unlink(missing_ok=True)
            fault = error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):  # whose own words may hold a password
            raise ParameterError(f"{hidden(address)} is no address to fetch from") from None
        except httpx.HTTPError as error:
            fault = error
        else:
            part.replace(target)
            return
    raise SourceUnavailableError(
        f"{hidden(address)} cannot be reached ({_reason(fault)}; {settings.tries} tries): "
        "look at the network, or set PITHY_MIRROR to a folder or an address that has the files"
    )


def part_of(target: Path) -> Path:
    """Where the bytes of `target` gather until it is whole."""
    return target.with_name(f"{target.name}.part")


def _continue(address: str, part: Path, timeout: float) -> None:
    """One try: ask for what is missing and append it."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with httpx.stream("GET", address, headers=headers, timeout=timeout, follow_redirects=True) as response:
        if response.status_code in GONE:
            raise InputMissingError(f"{hidden(address)} does not exist (the server answers {response.status_code})")
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _StaleError("the server has less than was fetched before")
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            raise _StaleError("the server answers with another part of the file")
        with part.open("ab" if resumed else "wb") as file:
            for block in response.iter_raw():
                file.write(block)


def _reason(fault: Exception) -> str:
    if isinstance(fault, httpx.HTTPStatusError):
        return f"the server answers {fault.response.status_code}"
    if isinstance(fault, httpx.TimeoutException):
        return "no answer in time"
    return str(fault) or type(fault).__name__
