"""Forced rerun of a stage that DVC considers up to date."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from epigram.core.errors import EpigramError
from epigram.runner.child_process import ProcessPool
from epigram.runner.dvc.process import PROGRESS, run_repro

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
    def forward(lines: Iterable[str]) -> None:
        for line in lines:
            if not line.startswith(PROGRESS):
                log.info("%s", line)

    outcome = run_repro(root, *arguments, processes=ProcessPool(), forward=forward)
    if outcome and outcome.code:
        raise EpigramError(f"{outcome.stage} failed (exit {outcome.code}): {outcome.message}")
