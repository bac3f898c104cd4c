"""Make one stage anew although its inputs are the same, and then whatever follows from a change.

DVC sees every file that a stage reads, but no dictionary or tagger that comes with an installed package: the table of
parts of speech can be out of date without a trace. This flow looks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.dag import pipeline
from pithy.errors import ParameterError
from pithy.values import nearest
from tasks import anew, graph, workspace
from tasks.request import Request


@flow(name="refresh_pos")
def refresh_pos(root: Path, stage: str, revision: str = "HEAD") -> State[Any]:
    """Make `stage` anew in the workspace of `revision`; where its output changed, run the pipeline there.

    Raises ParameterError for an unknown stage, and what its command raised.
    """
    request = Request(root=root, revision=revision)
    with workspace.opened(request) as place:
        stages = graph.read(place.path).stages
        if stage not in stages:
            raise ParameterError(f"there is no stage {stage!r}: {nearest(stage, list(stages))}")
        changed = anew.make(place.path, stage, get_run_logger())
    if not changed:
        return Completed(message=f"{stage} is as it was: nothing to do")
    get_run_logger().info("%s has changed: what follows from it runs", stage)
    ended: State[Any] = pipeline(request, return_state=True)
    return ended
