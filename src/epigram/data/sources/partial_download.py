"""Partial downloads, and the validators that show whether the remaining bytes belong to the same file."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

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
