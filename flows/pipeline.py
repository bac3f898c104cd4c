"""The pipeline: one task per stage of dvc.yaml, with independent stages in parallel."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from epigram.runner.prefect.pipeline_run import final_state, open_run, reserve_name
from epigram.runner.prefect.stage import RETRY_DELAYS
from epigram.runner.workspace.request import Request
from tasks.stage import publish, run_stages


@flow(name="pipeline", flow_run_name=reserve_name)
def pipeline(request: Request, retry_delays: tuple[float, ...] = RETRY_DELAYS) -> State[Any]:
    """Run every stage that is not up to date, and write runs/NAME/; the state's data is the Run, or a RunFailedError.

    The stages and their order come from dvc.yaml. `retry_delays` are the seconds before each retry of a stage.
    """
    with open_run(request) as run:
        run_stages(run, retry_delays)
        result = publish(run)
    return final_state(result)
