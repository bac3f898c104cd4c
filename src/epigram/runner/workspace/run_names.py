"""Names of runs; each is a folder in runs/."""

from __future__ import annotations

from typing import Annotated

from epigram.core.config_types import NAME_RULE, Checked, check_name, is_name
from epigram.core.errors import ParameterError

OWN = ("champion", "diff.html", "drift", "latest")  # other entries of runs/


def _is_run_name(name: str) -> bool:
    return is_name(name) and name not in OWN


RunName = Annotated[str, Checked(_is_run_name, f"{NAME_RULE}, and none of {', '.join(OWN)}")]


def check_run_name(name: object) -> None:
    """Raise ParameterError if no run can have the name."""
    check_name("--name", name)
    if name in OWN:
        raise ParameterError(f"--name was {name!r}: runs/{name} is epigram's own, take another name")
