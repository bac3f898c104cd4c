"""HTTP download of one file, with resume and retries; the target appears only when it is complete."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.core.limits import MAX_BYTES, MAX_REDIRECTS
from epigram.data.sources.access import check_redirect, redact_address
from epigram.data.sources.settings import DownloadSettings

STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]*"')  # a strong ETag; a weak one starts with W/


class StaleDownloadError(Exception):
    """Error for a partial download that does not match the server's file."""


def part_path(target: Path) -> Path:
    """Return the path of the partial download of `target`."""
    return target.with_name(f"{target.name}.part")


def validator_path(part: Path) -> Path:
    """Return the path that stores the validator of `part`, the ETag or the date of its file."""
    return part.with_name(f"{part.name}.validator")


def finish_download(part: Path, target: Path) -> None:
    """Rename the complete download to `target` and delete its validator."""
    part.replace(target)
    validator_path(part).unlink(missing_ok=True)


def resume_request(part: Path, *, checked: bool) -> tuple[int, dict[str, str]]:
    """Return how many bytes are present, and the headers that request the rest.

    Bytes without a validator are used only if the whole file is `checked` against a checksum later.
    """
    headers = {"Accept-Encoding": "identity"}
    start = part.stat().st_size if part.exists() else 0
    validator_file = validator_path(part)
    validator = validator_file.read_text(encoding="ascii", errors="replace") if validator_file.exists() else ""
    if not (validator.isascii() and validator.isprintable()):  # damaged
        validator = ""
    if not start or not (validator or checked):
        return 0, headers
    return start, headers | {"Range": f"bytes={start}-"} | ({"If-Range": validator} if validator else {})


def restart_download(part: Path, headers: httpx.Headers) -> None:
    """Delete the partial download, then store the validator of the new file.

    This order ensures that a validator is never next to the bytes of another file.
    """
    part.unlink(missing_ok=True)
    validator_file = validator_path(part)
    if validator := _reliable_validator(headers):
        validator_file.write_text(validator, encoding="ascii")
    else:
        validator_file.unlink(missing_ok=True)


def check_continuation(headers: httpx.Headers, start: int, validator: str | None) -> None:
    """Raise StaleError if the response does not continue the bytes present, because some servers ignore If-Range."""
    if not start or not headers.get("Content-Range", "").startswith(f"bytes {start}-"):
        raise StaleDownloadError("the server sent another part of the file")
    validators = {headers[name] for name in ("ETag", "Last-Modified") if name in headers}
    if validator is not None and validators and validator not in validators:
        raise StaleDownloadError("the file has changed since its first part was downloaded")


def _reliable_validator(headers: httpx.Headers) -> str:
    """Return the ETag or date that identifies this version of the file, or "" if the server sends no reliable one."""
    # RFC 9110, 13.1.5: an ETag that is not weak; without an ETag, a date at least a second before the response's.
    if "ETag" in headers:
        return headers["ETag"] if STRONG_ETAG.fullmatch(headers["ETag"]) else ""
    try:
        changed, now = (parsedate_to_datetime(headers[name]) for name in ("Last-Modified", "Date"))
        reliable = (now - changed).total_seconds() >= 1 and headers["Last-Modified"].isascii()
    except (KeyError, TypeError, ValueError):
        return ""
    return headers["Last-Modified"] if reliable else ""


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
