"""Runs of the pipeline that measure the cells of a printed table, one after the other."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from epigram.runner.prefect.sweep import Trial, result_of, stop_on_exit
from epigram.runner.tables.results import record
from tasks.trial import run


@flow(name="table")
def table(trials: list[Trial]) -> State[Any]:
    """Run every trial, and record the cells of each one that succeeds; the state's data is the list of results."""
    results = []
    with stop_on_exit():
        for trial in trials:
            future = run.submit(trial)
            future.wait()
            results.append(result_of(trial, future.state))
            if not results[-1].code:
                record(trial)
    return Completed(message=f"{len(results)} runs", data=results)
