"""The search for the best systems within a time budget: stages up to the encoded texts, then trials of systems."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from epigram.runner.prefect.stage import RETRY_DELAYS
from epigram.runner.search.session import open_search
from epigram.runner.workspace.request import Request
from epigram.workflow.search.goal import Goal
from tasks.measure import measure
from tasks.stage import run_stages


@flow(name="search")
def search(request: Request, goal: Goal, started: float) -> State[Any]:
    """Try systems on parts of the training texts; the state's data is the request for the run of the plan.

    `started` is the monotonic time at which the goal's seconds begin.
    """
    with open_search(request, goal, started) as session:
        run_stages(session.run, RETRY_DELAYS)
        if session.run.leave_out_unfinished():
            run_stages(session.run, RETRY_DELAYS)
        plan = session.search(measure)
        planned = session.planned(plan)
    return Completed(message=f"{len(plan.systems)} systems", data=planned)
