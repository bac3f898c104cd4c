"""Provenance of a model: the SHA-256 of data, code, parameters and weights, stored in its manifest as `provenance`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from epigram.core.config_types import has_type
from epigram.core.errors import DataError
from epigram.core.files import read_json, sha256
from epigram.models import manifest

PROVENANCE, WEIGHTS = "provenance", "model.safetensors"
PACKAGE = Path(__file__).parents[1]
TEMPLATE = "template/"  # files of a new project, which only an installed package contains


def parameters_hash(**values: Any) -> str:
    """Return the SHA-256 of `values` as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def code_hash() -> str:
    """Return the SHA-256 of a list of the package's Python files, sorted by path, with the path and SHA-256 of each."""
    files = sorted((path.relative_to(PACKAGE).as_posix(), path) for path in PACKAGE.rglob("*.py"))
    files = [(name, path) for name, path in files if not name.startswith(TEMPLATE)]
    lines = "".join(f"{name} {sha256(path)}\n" for name, path in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def of_saved(folder: Path, facts: dict[str, Any]) -> dict[str, str]:
    """Return the provenance of a model that is being saved in `folder`; `facts` may contain data and parameters."""
    return {**facts.get(PROVENANCE, {}), "code": code_hash(), "weights": sha256(folder / WEIGHTS)}


def read(folder: Path) -> dict[str, str]:
    """Return the provenance in the manifest of a verified `folder`; empty for a model of an older version.

    Raises DataError if it is malformed, or if its checksum of the weights is not that of the manifest.
    """
    content = read_json(folder / manifest.MANIFEST)
    provenance = content.get(PROVENANCE, {})
    if not has_type(provenance, dict[str, str]):
        raise DataError(
            f"{folder}/{manifest.MANIFEST}: {PROVENANCE} is not a mapping of checksums; restore the model's folder"
        )
    if provenance and content["sha256"].get(WEIGHTS, provenance.get("weights")) != provenance.get("weights"):
        raise DataError(
            f"{folder}/{manifest.MANIFEST} has two different checksums of the weights; restore the model's folder"
        )
    return dict(provenance)
