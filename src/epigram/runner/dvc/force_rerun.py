"""Forced rerun of a stage that DVC considers up to date."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from epigram.core.errors import EpigramError, TryAgainError
from epigram.runner.dvc.process import PROGRESS, ReproProcesses

Log = logging.Logger | logging.LoggerAdapter[Any]


def rerun(root: Path, name: str, log: Log) -> bool:
    """Bring stage `name` and its dependencies up to date, rerun it, and return whether its output has changed.

    Raises EpigramError with the outcome of the stage that fails, TryAgainError if it can be run again (exit code 75).
    """
    processes = ReproProcesses(root)
    try:
        _reproduce(processes, [name], log)
        before = _outputs(root, name)
        _reproduce(processes, ["--single-item", "--force", name], log)
    finally:
        processes.stop()
    return bool(_outputs(root, name) != before)


def _outputs(root: Path, name: str) -> Any:
    from epigram.runner.dvc.adapter import locked_stages

    return locked_stages(root)[name]["outs"]


def _reproduce(processes: ReproProcesses, arguments: list[str], log: Log) -> None:
    def forward(lines: Iterable[str]) -> None:
        for line in lines:
            if not line.startswith(PROGRESS):
                log.info("%s", line)

    outcome = processes.run(*arguments, forward=forward)
    if outcome and outcome.code:
        kind = TryAgainError if outcome.code == TryAgainError.code else EpigramError
        raise kind(f"{outcome.stage} failed (exit {outcome.code}): {outcome.message}")
