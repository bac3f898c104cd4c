"""The flows of the project in the current folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from epigram.core.errors import InputMissingError
from epigram.core.extras import require

PACKAGES = ("dvc", "prefect")  # packages of the extra `pipeline`


def find_flow(command: str, entrypoint: str) -> Callable[[], Any]:
    """Return a function that loads a flow of the project in the current folder, which takes a second, by Prefect.

    `entrypoint` names the flow as in prefect.yaml, for example flows.pipeline.pipeline: a project has flows of its own,
    which this package does not import. Raises the errors of `enter_project`.
    """
    enter_project(command, entrypoint.rpartition(".")[0])

    def load() -> Any:
        from prefect.flows import load_flow_from_entrypoint

        return load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False)

    return load


def enter_project(command: str, module: str) -> Path:
    """Put the current folder on Python's search path and return it; `module` is a flow's, such as flows.pipeline.

    Raises MissingPackageError if `command` cannot run because DVC or Prefect is not installed, InputMissingError if the
    folder does not have the module, and the errors of `require_repository`.
    """
    require(f"epigram {command}", "pipeline", *PACKAGES)
    path, root = Path(*module.split(".")).with_suffix(".py"), Path.cwd()
    if not path.is_file():
        raise InputMissingError(f"{path} does not exist; run the command in the folder of a project")
    from epigram.runner.project.files import require_repository

    require_repository(root)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return root
