"""Forced rerun of a stage that DVC considers up to date."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from epigram.core.errors import EpigramError
from epigram.runner import child_process
from epigram.runner.dvc.dvc_output import PROGRESS, ReproOutputParser
from epigram.runner.prefect.stage import start_repro

Log = logging.Logger | logging.LoggerAdapter[Any]


def rerun(root: Path, name: str, log: Log) -> bool:
    """Bring stage `name` and its dependencies up to date, rerun it, and return whether its output has changed.

    Raises EpigramError with the last lines of the stage's output if the stage fails.
    """
    _reproduce(root, [name], log)
    before = _outputs(root, name)
    _reproduce(root, ["--single-item", "--force", name], log)
    return bool(_outputs(root, name) != before)


def _outputs(root: Path, name: str) -> Any:
    from dvc.utils.serialize import load_yaml

    return load_yaml(root / "dvc.lock")["stages"][name]["outs"]


def _reproduce(root: Path, arguments: list[str], log: Log) -> None:
    name = arguments[-1]
    parser = ReproOutputParser(name)
    with start_repro(root, *arguments) as child:
        try:
            for line in child.stdout or ():
                if (text := parser.read(line)) and not text.startswith(PROGRESS):
                    log.info("%s", text)
        finally:
            child_process.terminate(child)
    if code := parser.exit_code(child.returncode):
        raise EpigramError(f"{name} failed (exit {code}): {parser.last_lines()}")
