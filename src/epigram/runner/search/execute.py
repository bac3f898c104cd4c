"""Run of the flow `search` for the command line."""

from __future__ import annotations

from dataclasses import replace

from epigram.runner.prefect.execution import CHECKS, Load, check_place, run_flow, start_server
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.workflow.search.goal import Goal


def execute_search(request: Request, goal: Goal, started: float, load: Load) -> Request:
    """Run the flow `search` and return the request for the run of its plan. Raises the error that ended the flow.

    `started` is the monotonic time at which the goal's seconds begin. The search has no name and runs on this machine;
    its run has the name of `request` and uses its Ray cluster.
    """
    check_place(request)
    own = replace(request, name=None, ray=None)
    api, flow = start_server(load, CHECKS, check=lambda: overrides.check(own))
    planned: Request = run_flow(api, lambda: flow(own, goal, started, return_state=True))
    return replace(planned, name=request.name, ray=request.ray)
