"""Names of runs; each is a folder in runs/."""

from __future__ import annotations

from typing import Annotated

from epigram.core.config_types import NAME_RULE, Checked, check_name, is_name
from epigram.core.errors import ParameterError

RESERVED = ("champion", "diff.html", "drift", "latest")  # other entries of runs/


def _is_run_name(name: str) -> bool:
    return is_name(name) and name not in RESERVED


RunName = Annotated[str, Checked(_is_run_name, f"{NAME_RULE}, except the reserved names {', '.join(RESERVED)}")]


def check_run_name(name: object) -> None:
    """Raise ParameterError if the name is invalid or reserved."""
    check_name("--name", name)
    if name in RESERVED:
        raise ParameterError(f"--name {name!r} is reserved: epigram uses runs/{name}; choose another name")
