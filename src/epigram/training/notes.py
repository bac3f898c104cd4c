"""Notes of finished work: JSON files with a digest, so that a changed or truncated one is not read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from epigram.core.errors import EpigramError
from epigram.core.files import read_json, write_json

READ_ERRORS = (EpigramError, KeyError, TypeError, AttributeError)  # errors from reading a damaged file


def write_note(path: Path, note: dict[str, Any]) -> None:
    """Write a note with its digest, atomically."""
    write_json(path, {**note, "digest": digest(note)})


def read_note(path: Path) -> dict[str, Any]:
    """Return an intact note. Raises EpigramError, KeyError, TypeError or AttributeError for any other."""
    note: dict[str, Any] = read_json(path)
    if note.pop("digest") != digest(note):
        raise EpigramError(f"{path} has changed since it was written")
    return note


def digest(value: Any) -> str:
    """Return a hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
