"""Run in which every stage is up to date. It needs no Prefect server, whose start takes longer than all the rest."""

from __future__ import annotations

import time

from rich.console import Console

from epigram.process.signals import raise_on_signals
from epigram.runner.dvc import graph
from epigram.runner.prefect.artifacts import StatusTable
from epigram.runner.runs import publish, reservations
from epigram.runner.runs.publish import Run, StageResult
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import LOCK_FILE, open_workspace, workspace_folder


def finish_if_up_to_date(request: Request) -> Run | None:
    """Write runs/NAME/ and return the run, or return None if a stage has to run.

    Raises TryAgainError while another run works in the same tree.
    """
    started_at = time.monotonic()
    if request.space or not (workspace_folder(request) / LOCK_FILE).exists():  # the latter: nothing has run yet
        return None
    with raise_on_signals(), open_workspace(request) as workspace:
        stages = graph.read(workspace.path)
        if len(stages.current) < len(stages):
            return None
        name = reservations.reserve(request.root, request.name, workspace.dataset)
        with reservations.release_on_exit(request.root, name):
            table = StatusTable(stages.stages, Console(stderr=True))
            with table.live():
                for stage in stages.stages:
                    table.stop(stage, "Cached")
            run = Run(
                name=name,
                dataset=workspace.dataset,
                revision=workspace.revision,
                wall_seconds=time.monotonic() - started_at,
                stages=dict.fromkeys(stages.stages, StageResult(state="Cached", seconds=0.0)),
                comparison=publish.comparison(stages, workspace),
            )
            publish.write_run(run, stages, workspace, request.plan)
    return run
