"""A file that has arrived in part, and what tells whether the rest still belongs to it."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

STRONG = re.compile(r'"[\x21\x23-\x7e]*"')  # an ETag; a weak one begins with W/


class StaleError(Exception):
    """What was fetched before does not fit what the server has."""


def part_of(target: Path) -> Path:
    """Where the bytes of `target` gather until it is whole."""
    return target.with_name(f"{target.name}.part")


def validator_of(part: Path) -> Path:
    """Where the ETag or the date of the file that `part` belongs to is kept."""
    return part.with_name(f"{part.name}.validator")


def finish(part: Path, target: Path) -> None:
    """Give the whole file its name."""
    part.replace(target)
    validator_of(part).unlink(missing_ok=True)


def wanted(part: Path, *, checked: bool) -> tuple[int, dict[str, str]]:
    """How many bytes are there, and the headers that ask for the others.

    Bytes without a validator count only where the whole file is `checked` against a checksum later.
    """
    headers = {"Accept-Encoding": "identity"}
    start = part.stat().st_size if part.exists() else 0
    kept = validator_of(part)
    validator = kept.read_text(encoding="ascii", errors="replace") if kept.exists() else ""
    if not (validator.isascii() and validator.isprintable()):  # damaged
        validator = ""
    if not start or not (validator or checked):
        return 0, headers
    return start, headers | {"Range": f"bytes={start}-"} | ({"If-Range": validator} if validator else {})


def begin_again(part: Path, headers: httpx.Headers) -> None:
    """Drop what is there before the new file's validator is kept: no validator ever stands by another file's bytes."""
    part.unlink(missing_ok=True)
    kept = validator_of(part)
    if validator := _validator(headers):
        kept.write_text(validator, encoding="ascii")
    else:
        kept.unlink(missing_ok=True)


def check_continued(headers: httpx.Headers, start: int, validator: str | None) -> None:
    """Raise StaleError for an answer that does not continue the bytes that are there: some servers ignore If-Range."""
    if not start or not headers.get("Content-Range", "").startswith(f"bytes {start}-"):
        raise StaleError("the server answers with another part of the file")
    named = {headers[name] for name in ("ETag", "Last-Modified") if name in headers}
    if validator is not None and named and validator not in named:
        raise StaleError("the file has changed since its beginning was fetched")


def _validator(headers: httpx.Headers) -> str:
    """What tells this version of the file from others; empty where the server gives nothing reliable.

    RFC 9110, 13.1.5: an ETag that is not weak; without an ETag, a date at least a second before the answer's.
    """
    if "ETag" in headers:
        return headers["ETag"] if STRONG.fullmatch(headers["ETag"]) else ""
    try:
        changed, now = (parsedate_to_datetime(headers[name]) for name in ("Last-Modified", "Date"))
        reliable = (now - changed).total_seconds() >= 1 and headers["Last-Modified"].isascii()
    except (KeyError, TypeError, ValueError):
        return ""
    return headers["Last-Modified"] if reliable else ""
