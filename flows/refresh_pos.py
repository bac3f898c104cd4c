"""Forced rerun of one stage with unchanged inputs; if its output changes, the pipeline runs as well.

DVC tracks every file that a stage reads, but not the dictionaries and taggers of installed packages. The part-of-speech
table can therefore be outdated although DVC considers it up to date. This flow checks it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from epigram.runner.prefect.refresh import rerun_stage
from epigram.runner.workspace.request import Request
from flows.pipeline import pipeline


@flow(name="refresh_pos")
def refresh_pos(root: Path, stage: str, revision: str = "HEAD") -> State[Any]:
    """Rerun `stage` in the workspace of `revision`; if its output has changed, run the pipeline there.

    Raises ParameterError for an unknown stage, EpigramError if the stage fails.
    """
    request = Request(root=root, revision=revision)
    if not rerun_stage(request, stage):
        return Completed(message=f"the output of {stage} has not changed; nothing to do")
    get_run_logger().info("the output of %s has changed; running the stages that depend on it", stage)
    state: State[Any] = pipeline(request, return_state=True)
    return state
