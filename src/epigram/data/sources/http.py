"""HTTP download of one file, with resume and retries; the target appears only when it is complete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.core.limits import MAX_BYTES, MAX_REDIRECTS
from epigram.data.sources.access import check_redirect, redact_address
from epigram.data.sources.partial_download import (
    StaleDownloadError,
    check_continuation,
    finish_download,
    part_path,
    restart_download,
    resume_request,
)
from epigram.data.sources.settings import DownloadSettings

MISSING_STATUS = {404, 410}
MAX_PAUSE = 30.0  # seconds


class _SlowTransferError(Exception):
    """Error for a transfer below the minimum rate."""


def download(
    address: str,
    target: Path,
    settings: DownloadSettings,
    pause: float = 1.0,
    *,
    max_bytes: int = MAX_BYTES,
    checked: bool = False,
) -> None:
    """Download `address` to `target`, and resume a partial download of an earlier try or an earlier run.

    A download is resumed if the server can confirm that the file has not changed (ETag or Last-Modified), or if the
    file is `checked` against a checksum later. `pause` is the delay in seconds before the second try; it doubles with
    each try, up to 30 seconds.

    Raises SourceUnavailableError after the last try and for a redirect to a private address, InputMissingError if the
    server reports that the file does not exist, DataError for a file of more than `max_bytes`, ParameterError for an
    invalid address.
    """
    part = part_path(target)
    part.parent.mkdir(parents=True, exist_ok=True)
    transfer = _Transfer(address, part, settings, max_bytes, checked)
    last_error: Exception = SourceUnavailableError("not tried")
    for attempt in range(settings.tries):
        if attempt:
            time.sleep(min(pause * 2 ** (attempt - 1), MAX_PAUSE))
        try:
            transfer.attempt()
        except StaleDownloadError as error:
            part.unlink(missing_ok=True)
            last_error = error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):  # their messages may contain a password
            raise ParameterError(
                f"{redact_address(address)} is not a valid download address; expected https:// or http://"
            ) from None
        except (httpx.HTTPError, _SlowTransferError) as error:
            last_error = error
        else:
            finish_download(part, target)
            return
    raise SourceUnavailableError(
        f"{redact_address(address)} cannot be downloaded ({_describe_error(last_error)}; {settings.tries} tries); "
        "check the network, or set EPIGRAM_MIRROR to a folder or an address that has the files"
    )


@dataclass(frozen=True)
class _Transfer:
    """Transfer of one file from `address` to the partial download `part`."""

    address: str
    part: Path
    settings: DownloadSettings
    max_bytes: int
    checked: bool

    def attempt(self) -> None:
        """Make one try: request the missing bytes and append them, or start again."""
        start, headers = resume_request(self.part, checked=self.checked)
        with _open_response(self.address, headers, self.settings.timeout) as response:
            if response.status_code in MISSING_STATUS:
                code = response.status_code
                raise InputMissingError(f"{redact_address(self.address)} does not exist (HTTP status {code})")
            if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise StaleDownloadError("the file on the server is shorter than the partial download")
            response.raise_for_status()
            if response.status_code == httpx.codes.PARTIAL_CONTENT:
                check_continuation(response.headers, start, headers.get("If-Range"))
            else:
                start = 0
                restart_download(self.part, response.headers)
            self._append(response, start)

    def _append(self, response: httpx.Response, start: int) -> None:
        size, rate_monitor = start, _RateMonitor(self.settings)
        announced = response.headers.get("Content-Length", "")
        self._check_size(start + int(announced) if announced.isdecimal() else start)
        with self.part.open("ab") as file:
            for block in response.iter_raw():
                size += len(block)
                self._check_size(size)
                file.write(block)
                rate_monitor.check(len(block))

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            self.part.unlink(missing_ok=True)
            raise DataError(
                f"{redact_address(self.address)} is larger than {self.max_bytes:,} bytes; if the size is correct, "
                "increase max_bytes of the file in data/sources"
            )


class _RateMonitor:
    """Monitor of the transfer rate: each window of `timeout` seconds must reach the minimum rate."""

    def __init__(self, settings: DownloadSettings) -> None:
        self.window, self.rate = settings.timeout, settings.min_rate
        self.since, self.bytes = time.monotonic(), 0

    def check(self, size: int) -> None:
        """Count a block of `size` bytes. Raises _SlowError if the rate is too low."""
        self.bytes += size
        elapsed = time.monotonic() - self.since
        if elapsed < self.window:
            return
        if self.bytes < self.rate * elapsed:
            raise _SlowTransferError(f"slower than {self.rate:,} bytes per second")
        self.since, self.bytes = time.monotonic(), 0


@contextmanager
def _open_response(address: str, headers: dict[str, str], timeout: float) -> Iterator[httpx.Response]:
    """Yield the response after redirects, each of which is checked; the caller reads the body."""
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


def _describe_error(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP status {error.response.status_code}"
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    if isinstance(error, httpx.RemoteProtocolError) and "location header" in str(error):
        return "redirect to an invalid address"
    return shown(str(error)) or type(error).__name__
