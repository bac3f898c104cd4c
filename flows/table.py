"""Runs of the pipeline that measure the cells of a printed table."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.futures import as_completed
from prefect.states import Completed

from epigram.runner.prefect.sweep import Trial, result_of, stop_on_exit
from epigram.runner.tables.results import record
from tasks.trial import run


@flow(name="table")
def table(trials: list[Trial]) -> State[Any]:
    """Run every trial, and record its cell as soon as it succeeds; the state's data is the list of results."""
    results = []
    with stop_on_exit():
        futures = {run.submit(trial): trial for trial in trials}
        for future in as_completed(list(futures)):
            future.wait()  # its state is final a moment after it has completed
            trial = futures[future]
            results.append(result_of(trial, future.state))
            if not results[-1].code:
                record(trial)
    return Completed(message=f"{len(results)} runs", data=results)
