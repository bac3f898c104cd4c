"""Folders in runs/: their names, and the symbolic links `latest` and `champion` to two of them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from epigram.core.config_types import NAME_RULE, Checked, check_name, is_name
from epigram.core.errors import ParameterError

RESERVED = ("champion", "drift", "index.html", "latest")  # other entries of runs/
RunName = Annotated[
    str,
    Checked(
        lambda name: is_name(name) and name not in RESERVED,
        f"{NAME_RULE}, except the reserved names {', '.join(RESERVED)}",
    ),
]


def check_run_name(name: object) -> None:
    """Raise ParameterError if the name is invalid or reserved."""
    check_name("--name", name)
    if name in RESERVED:
        raise ParameterError(f"--name {name!r} is reserved: epigram uses runs/{name}; choose another name")


def set_link(link: Path, name: str) -> None:
    """Atomically point the symbolic link to `name`, and delete temporary links of killed processes.

    Raises ParameterError if something else is in its place.
    """
    check_is_link(link)
    for stale in link.parent.glob(f".{link.name}.*"):
        if stale.is_symlink() and stale.suffix[1:].isdecimal() and not _is_running(int(stale.suffix[1:])):
            stale.unlink(missing_ok=True)
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.symlink_to(name, target_is_directory=True)
    temporary.replace(link)


def check_is_link(link: Path) -> None:
    """Raise ParameterError if a file or folder is in the place of the link."""
    if os.path.lexists(link) and not link.is_symlink():
        raise ParameterError(
            f"{link} is not a symbolic link, but epigram needs one there; move the file or folder away and rerun"
        )


def _is_running(process: int) -> bool:
    """Return whether another process with this id is running."""
    with suppress(PermissionError):  # the process belongs to another user
        try:
            os.kill(process, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return process != os.getpid()
