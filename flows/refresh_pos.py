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

from epigram.core.config_types import nearest
from epigram.core.errors import ParameterError
from epigram.runner.dvc import force_rerun, graph
from epigram.runner.workspace import workspace
from epigram.runner.workspace.request import Request
from flows.dag import pipeline


@flow(name="refresh_pos")
def refresh_pos(root: Path, stage: str, revision: str = "HEAD") -> State[Any]:
    """Rerun `stage` in the workspace of `revision`; if its output has changed, run the pipeline there.

    Raises ParameterError for an unknown stage, EpigramError if the stage fails.
    """
    request = Request(root=root, revision=revision)
    with workspace.opened(request) as place:
        stages = graph.read(place.path).stages
        if stage not in stages:
            raise ParameterError(f"there is no stage {stage!r}: {nearest(stage, list(stages))}")
        changed = force_rerun.make(place.path, stage, get_run_logger())
    if not changed:
        return Completed(message=f"{stage} is as it was: nothing to do")
    get_run_logger().info("%s has changed: what follows from it runs", stage)
    ended: State[Any] = pipeline(request, return_state=True)
    return ended
