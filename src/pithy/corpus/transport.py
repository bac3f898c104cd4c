"""Fetch one address over HTTP: resumed, retried with growing delay, whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from pithy.corpus.access import check_redirect, hidden
from pithy.corpus.limits import MAX_BYTES, MAX_REDIRECTS
from pithy.corpus.partial import StaleError, begin_again, check_continued, finish, part_of, wanted
from pithy.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from pithy.settings import DownloadSettings
from pithy.values import shown

GONE = {404, 410}
LONGEST_PAUSE = 30.0  # seconds


class _SlowError(Exception):
    """The server sends less than the lowest rate."""


def download(
    address: str,
    target: Path,
    settings: DownloadSettings,
    pause: float = 1.0,
    *,
    max_bytes: int = MAX_BYTES,
    checked: bool = False,
) -> None:
    """Fetch `address` to `target`; what a broken try left is continued by the next, in a later run too.

    A file is continued where the server can say that it has not changed (ETag or Last-Modified), or where it is
    `checked` against a checksum later. `pause` is the first delay between tries in seconds, which doubles.
    Raises SourceUnavailableError after the last try and for a redirect to a private address, InputMissingError where
    the server says that there is no such file, DataError for one of more than `max_bytes`, ParameterError for an
    impossible address.
    """
    part = part_of(target)
    part.parent.mkdir(parents=True, exist_ok=True)
    transfer = _Transfer(address, part, settings, max_bytes, checked)
    fault: Exception = SourceUnavailableError("not tried")
    for attempt in range(settings.tries):
        if attempt:
            time.sleep(min(pause * 2 ** (attempt - 1), LONGEST_PAUSE))
        try:
            transfer.go_on()
        except StaleError as error:
            part.unlink(missing_ok=True)
            fault = error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):  # whose own words may hold a password
            raise ParameterError(f"{hidden(address)} is no address to fetch from") from None
        except (httpx.HTTPError, _SlowError) as error:
            fault = error
        else:
            finish(part, target)
            return
    raise SourceUnavailableError(
        f"{hidden(address)} cannot be reached ({_reason(fault)}; {settings.tries} tries): "
        "look at the network, or set PITHY_MIRROR to a folder or an address that has the files"
    )


@dataclass(frozen=True)
class _Transfer:
    """One file on its way from `address` to `part`."""

    address: str
    part: Path
    settings: DownloadSettings
    max_bytes: int
    checked: bool

    def go_on(self) -> None:
        """One try: ask for what is missing and append it, or begin again."""
        start, headers = wanted(self.part, checked=self.checked)
        with _answer(self.address, headers, self.settings.timeout) as response:
            if response.status_code in GONE:
                code = response.status_code
                raise InputMissingError(f"{hidden(self.address)} does not exist (the server answers {code})")
            if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise StaleError("the server has less than was fetched before")
            response.raise_for_status()
            if response.status_code == httpx.codes.PARTIAL_CONTENT:
                check_continued(response.headers, start, headers.get("If-Range"))
            else:
                start = 0
                begin_again(self.part, response.headers)
            self._append(response, start)

    def _append(self, response: httpx.Response, start: int) -> None:
        size, pace = start, _Pace(self.settings)
        announced = response.headers.get("Content-Length", "")
        self._check_size(start + int(announced) if announced.isdecimal() else start)
        with self.part.open("ab") as file:
            for block in response.iter_raw():
                size += len(block)
                self._check_size(size)
                file.write(block)
                pace.check(len(block))

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            self.part.unlink(missing_ok=True)
            raise DataError(
                f"{hidden(self.address)} is larger than {self.max_bytes:,} bytes: if the size is right, set max_bytes "
                "of the file in data/sources"
            )


class _Pace:
    """Watches the rate of a transfer: each window of `timeout` seconds must bring its share of bytes."""

    def __init__(self, settings: DownloadSettings) -> None:
        self.window, self.rate = settings.timeout, settings.min_rate
        self.since, self.bytes = time.monotonic(), 0

    def check(self, size: int) -> None:
        """Count a block. Raises _SlowError."""
        self.bytes += size
        elapsed = time.monotonic() - self.since
        if elapsed < self.window:
            return
        if self.bytes < self.rate * elapsed:
            raise _SlowError(f"it sends fewer than {self.rate:,} bytes a second")
        self.since, self.bytes = time.monotonic(), 0


@contextmanager
def _answer(address: str, headers: dict[str, str], timeout: float) -> Iterator[httpx.Response]:
    """The answer after redirects, each of them checked; its body is read by whoever asks for it."""
    with httpx.Client(timeout=timeout) as client:
        request = client.build_request("GET", address, headers=headers)
        for _ in range(MAX_REDIRECTS):
            response = client.send(request, stream=True)
            try:
                if response.next_request is None:
                    yield response
                    return
            finally:
                response.close()
            request = response.next_request
            check_redirect(address, str(request.url))
    raise httpx.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects")


def _reason(fault: Exception) -> str:
    if isinstance(fault, httpx.HTTPStatusError):
        return f"the server answers {fault.response.status_code}"
    if isinstance(fault, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(fault, httpx.RemoteProtocolError) and "location header" in str(fault):
        return "it redirects to what is no address"
    return shown(str(fault)) or type(fault).__name__
