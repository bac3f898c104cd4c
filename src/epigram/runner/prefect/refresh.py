"""Body of the flow `refresh_pos`: a forced rerun of one stage."""

from __future__ import annotations

from prefect import get_run_logger

from epigram.core.config_types import nearest
from epigram.core.errors import ParameterError
from epigram.runner.dvc import force_rerun, graph
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import open_workspace


def rerun_stage(request: Request, stage: str) -> bool:
    """Rerun `stage` in the workspace of the request, and return whether its output has changed.

    Raises ParameterError for an unknown stage, EpigramError if the stage fails.
    """
    with open_workspace(request) as workspace:
        stages = graph.read(workspace.path).stages
        if stage not in stages:
            raise ParameterError(f"unknown stage {stage!r}: {nearest(stage, list(stages))}")
        return force_rerun.rerun(workspace.path, stage, get_run_logger())
