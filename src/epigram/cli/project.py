"""The flows of the project in the current folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from epigram.core.errors import InputMissingError
from epigram.core.extras import require

PACKAGES = ("dvc", "prefect")  # of the extra `pipeline`


def find_flow(command: str, module: str, name: str) -> Callable[[], Any]:
    """Return a function that imports `name` from flows/MODULE.py of the project in the current folder.

    The import takes a second, because it includes Prefect. `command` and the errors are those of `enter_project`.
    """
    enter_project(command, module)
    return lambda: getattr(importlib.import_module(f"flows.{module}"), name)


def enter_project(command: str, module: str) -> Path:
    """Put the current folder on Python's search path and return it.

    Raises MissingPackageError if `command` cannot run because DVC or Prefect is not installed, InputMissingError if the
    folder has no flows/MODULE.py.
    """
    require(f"epigram {command}", "pipeline", *PACKAGES)
    path, root = Path("flows", f"{module}.py"), Path.cwd()
    if not path.is_file():
        raise InputMissingError(f"{path} does not exist; run the command in the folder of a project")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return root
