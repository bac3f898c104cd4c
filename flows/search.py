"""The search for the best system within a time: first the data, then trainings in the process of the flow."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from epigram.fitting.stopwatch import Stopwatch
from epigram.runner.prefect.pipeline_run import final_state, open_run
from epigram.runner.prefect.stage import RETRY_DELAYS
from epigram.runner.search import RAW, find_choice
from epigram.runner.workspace.request import Request
from tasks.stage import run_stages


@flow(name="search")
def search(request: Request, seconds: float, started: float) -> State[Any]:
    """Search for so many seconds since the monotonic time `started`; the state's data is the choice, or an error."""
    with open_run(request, until=RAW) as run:
        run_stages(run, RETRY_DELAYS)
        if run.failure:
            return final_state(run.result())
        choice = find_choice(run.workspace.path, Stopwatch(seconds, started))
    return Completed(message=", ".join(choice.systems), data=choice)
