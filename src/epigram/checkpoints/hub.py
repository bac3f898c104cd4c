"""Checkpoints of the Hugging Face hub, written `hub:ORG/NAME@REVISION`: their folders in the project, and checksums.

The folders are in the project, not in the library's cache, so that its copy, its deletion and the workspaces of runs
include them, and so that a lock of checksums is next to the files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from epigram.core.config_types import has_type
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import read_json, sha256

HUB_PREFIX = "hub:"
HUB_FOLDER = Path(".epigram/hub")  # relative to the project; ORG/NAME/REVISION for each checkpoint
LOCK = "sha256.lock"  # JSON, the SHA-256 of each downloaded file by name; it is not a *.json file of the checkpoint
ADDRESS = re.compile(r"hub:(\w[\w.-]*/\w[\w.-]*)@([0-9a-f]{40})", re.ASCII)
BARE_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


class HubCheckpoint(NamedTuple):
    """Repository of a model on the hub, ORG/NAME, and the hash of its commit."""

    repository: str
    revision: str

    @property
    def folder(self) -> Path:
        """The folder of the downloaded files."""
        return HUB_FOLDER / self.repository / self.revision


def parse_hub_checkpoint(checkpoint: str) -> HubCheckpoint:
    """Return the parts of `checkpoint`. Raises ParameterError unless its revision is a full commit hash."""
    match = ADDRESS.fullmatch(checkpoint)
    if match is None:
        raise ParameterError(
            f"checkpoint {checkpoint!r}: expected {HUB_PREFIX}ORG/NAME@REVISION with the full hash of a commit, which "
            "has 40 digits (0-9, a-f): copy it from the page of the model, Files and versions, History"
        )
    return HubCheckpoint(match[1], match[2])


def is_downloaded(checkpoint: HubCheckpoint) -> bool:
    """Return whether all files of `checkpoint` are in the project; the folder is written in one step."""
    return (checkpoint.folder / LOCK).is_file()


def verify_hub_checkpoint(checkpoint: str) -> None:
    """Raise DataError if the downloaded files differ from the lock, or another file is next to them."""
    folder = parse_hub_checkpoint(checkpoint).folder
    expected = read_json(folder / LOCK)
    found = {path.name: sha256(path) for path in folder.iterdir() if path.name != LOCK and path.is_file()}
    if not has_type(expected, dict[str, str]) or found != expected:
        known = expected if isinstance(expected, dict) else {}
        names = sorted(name for name in {*found, *known} if found.get(name) != known.get(name))
        raise DataError(
            f"checkpoint {checkpoint!r}: {folder / next(iter(names), LOCK)} was changed after the download; delete "
            f"{folder} and run: dvc repro --single-item --force encode@VIEW"
        )


def hub_hint(checkpoint: str) -> str:
    """Return what to write for a model of the hub, if `checkpoint` may be the name of one without its revision."""
    if not BARE_NAME.fullmatch(checkpoint):
        return ""
    return f", or write {HUB_PREFIX}{checkpoint}@REVISION for a model of the Hugging Face hub"
