"""The search for the best systems within a time budget: stages up to the encoded texts, then trials of systems."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Completed

from epigram.runner.prefect.stage import RETRY_DELAYS
from epigram.runner.search.goal import Goal
from epigram.runner.search.session import open_search
from epigram.runner.workspace.request import Request
from tasks.measure import measure
from tasks.stage import stage_task


@flow(name="search")
def search(request: Request, goal: Goal) -> State[Any]:
    """Try systems on parts of the training texts; the state's data is the plan of the run."""
    with open_search(request, goal) as session:
        futures: dict[str, PrefectFuture[Any]] = {}
        for stage in session.run.stages(futures):
            dependencies = [futures[name] for name in sorted(stage.needs)]
            task = stage_task(session.run, stage, RETRY_DELAYS)
            futures[stage.name] = task.submit(return_state=False, wait_for=dependencies)
        plan = session.search(measure)
    return Completed(message=f"{len(plan.systems)} systems", data=plan)
