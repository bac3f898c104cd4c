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
from epigram.data.sources.settings import DownloadSettings

MISSING_STATUS = {404, 410}
MAX_PAUSE = 30.0  # seconds


class _TransferError(Exception):
    """Error for a transfer that another try may complete."""


def part_path(target: Path) -> Path:
    """Return the path of the partial download of `target`."""
    return target.with_name(f"{target.name}.part")


def download(
    address: str,
    target: Path,
    settings: DownloadSettings,
    pause: float = 1.0,
    *,
    max_bytes: int = MAX_BYTES,
    resume: bool = False,
    checked: bool = True,
) -> bool:
    """Download `address` to `target`, and return whether its bytes come from several responses.

    With `resume`, a partial download of an earlier try or run is continued; the caller then compares the file with a
    checksum, because the server's file may have changed in between. If the caller cannot find out whether the file is
    complete (`checked`), the response must announce its length: without one, a broken connection looks like the end.
    `pause` is the delay in seconds before the second try; it doubles with each try, up to 30 seconds.

    Raises SourceUnavailableError after the last try and for a redirect to a private address, InputMissingError if the
    server reports that the file does not exist, DataError for a file of more than `max_bytes` and for a missing length,
    ParameterError for an invalid address.
    """
    part = part_path(target)
    part.parent.mkdir(parents=True, exist_ok=True)
    transfer = _Transfer(address, part, settings, max_bytes, checked)
    last_error: Exception = SourceUnavailableError("not tried")
    for attempt in range(settings.tries):
        if attempt:
            time.sleep(min(pause * 2 ** (attempt - 1), MAX_PAUSE))
        try:
            start = transfer.attempt(part.stat().st_size if resume and part.exists() else 0)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):  # their messages may contain a password
            raise ParameterError(
                f"{redact_address(address)} is not a valid download address; expected https:// or http://"
            ) from None
        except (httpx.HTTPError, _TransferError) as error:
            last_error = error
        else:
            part.replace(target)
            return start > 0
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

    def attempt(self, start: int) -> int:
        """Request the bytes from `start` on and write them there, and return `start`; 0 if the server sends all bytes.

        Raises _TransferError, and deletes the partial download, if the server sends another part.
        """
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with _open_response(self.address, headers, self.settings.timeout) as response:
            if response.status_code in MISSING_STATUS:
                code = response.status_code
                raise InputMissingError(f"{redact_address(self.address)} does not exist (HTTP status {code})")
            partial = response.status_code == httpx.codes.PARTIAL_CONTENT
            continued = start > 0 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            if (partial and not continued) or response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                self.part.unlink(missing_ok=True)
                raise _TransferError("the server sent another part of the file")
            response.raise_for_status()
            if not self.checked and not response.headers.keys() & {"content-length", "transfer-encoding"}:
                raise DataError(
                    f"{redact_address(self.address)} is sent without its length, so that a part of the file would look "
                    "like all of it; set sha256 of the file, or rows, in data/sources"
                )
            start = start if partial else 0
            self._write(response, start)
        return start

    def _write(self, response: httpx.Response, start: int) -> None:
        size, since, received = start, time.monotonic(), 0
        announced = response.headers.get("Content-Length", "")
        self._check_size(start + int(announced) if announced.isdecimal() else start)
        with self.part.open("ab" if start else "wb") as file:
            for block in response.iter_raw():
                size += len(block)
                self._check_size(size)
                file.write(block)
                received += len(block)
                if (elapsed := time.monotonic() - since) >= self.settings.timeout:
                    if received < self.settings.min_rate * elapsed:
                        raise _TransferError(f"slower than {self.settings.min_rate:,} bytes per second")
                    since, received = time.monotonic(), 0

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            self.part.unlink(missing_ok=True)
            raise DataError(
                f"{redact_address(self.address)} is larger than {self.max_bytes:,} bytes; if the size is correct, "
                "increase max_bytes of the file in data/sources"
            )


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
