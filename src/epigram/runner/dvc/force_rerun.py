"""Forced rerun of a stage that DVC considers up to date."""

from __future__ import annotations

import logging
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

from epigram.core.errors import EpigramError
from epigram.core.outcome import MAX_DETAILS
from epigram.runner import child_process
from epigram.runner.dvc.process import PROGRESS, outcome_of, read_lines, start_repro

Log = logging.Logger | logging.LoggerAdapter[Any]


def rerun(root: Path, name: str, log: Log) -> bool:
    """Bring stage `name` and its dependencies up to date, rerun it, and return whether its output has changed.

    Raises EpigramError with the outcome of the stage that fails.
    """
    _reproduce(root, [name], log)
    before = _outputs(root, name)
    _reproduce(root, ["--single-item", "--force", name], log)
    return bool(_outputs(root, name) != before)


def _outputs(root: Path, name: str) -> Any:
    from epigram.runner.dvc.adapter import locked_stages

    return locked_stages(root)[name]["outs"]


def _reproduce(root: Path, arguments: list[str], log: Log) -> None:
    last_lines: deque[str] = deque(maxlen=MAX_DETAILS)
    with tempfile.TemporaryDirectory(prefix="epigram-") as folder:
        file = Path(folder, "outcome.json")
        with start_repro(root, *arguments, outcome_file=file) as child:
            try:
                for line in read_lines(child, last_lines):
                    if not line.startswith(PROGRESS):
                        log.info("%s", line)
            finally:
                child_process.terminate(child)
        outcome = outcome_of(arguments[-1], child.returncode, file, last_lines)
    if outcome.code:
        raise EpigramError(f"{outcome.stage} failed (exit {outcome.code}): {outcome.message}")
