"""Refresh of the part-of-speech table; if it changes, the pipeline runs as well.

Two things change it. New words of the training texts are published as the next version of the table, on which the
stage depends. And DVC tracks every file that a stage reads, but not the dictionaries and taggers of installed packages,
so this flow reruns the stage with unchanged inputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from epigram.runner.retraining.refresh import refresh
from epigram.runner.workspace.request import Request
from flows.pipeline import pipeline


@flow(name="refresh_pos")
def refresh_pos(root: Path, stage: str, revision: str = "HEAD") -> State[Any]:
    """Rerun `stage` in the workspace of `revision` and publish new words; run the pipeline there if anything changed.

    Raises ParameterError for an unknown stage, EpigramError if the stage fails.
    """
    request = Request(root=root, revision=revision)
    if not refresh(request, stage):
        return Completed(message=f"the output of {stage} has not changed; nothing to do")
    get_run_logger().info("the output of %s changes; running the stages that depend on it", stage)
    state: State[Any] = pipeline(request, return_state=True)
    return state
