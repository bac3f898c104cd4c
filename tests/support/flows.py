"""Runs of the flow on the toy project."""

from __future__ import annotations

import time
from typing import Any

from epigram.runner.prefect.pipeline_run import RunFailedError
from epigram.runner.runs.publish import Run
from epigram.runner.workspace.request import Request
from tests.support.toy import Toy

TWICE = (0.1, 0.1)


def flow(toy: Toy, **wanted: Any) -> Run:
    """Run the flow in this process; return the run, even if it failed."""
    from flows.pipeline import pipeline

    state = pipeline(Request(root=toy.root, **wanted), retry_delays=TWICE, return_state=True)
    result = state.result(raise_on_failure=False)
    if isinstance(result, RunFailedError):
        assert state.is_failed()
        return result.run
    if isinstance(result, BaseException):
        raise result
    assert state.is_completed()
    assert isinstance(result, Run)
    return result


def states(run: Run) -> dict[str, str]:
    return {name: record.state for name, record in run.stages.items()}


def task_runs(run: Run) -> dict[str, Any]:
    """Return Prefect's task runs of the run, by name."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    last = time.monotonic() + 30  # the server stores task events in batches, a second or more later
    with get_client(sync_client=True) as client:
        while True:
            found = client.read_task_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[run.name])))
            shown = {each.name: each for each in found}
            run_flow = all(each.state and each.state_name in {*states(run).values(), "Completed"} for each in found)
            if (run_flow and shown.keys() == run.stages.keys() | {"publish"}) or time.monotonic() > last:
                assert shown.pop("publish").state_name == "Completed"
                return shown
            time.sleep(0.2)
