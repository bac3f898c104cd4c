"""Runs of the pipeline over a grid of settings; docs/scale.md explains how to use several machines."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.futures import wait
from prefect.states import Completed

from epigram.runner.prefect.sweep import Trial, create_artifact, result_of, stop_on_exit
from tasks.trial import run


@flow(name="sweep")
def sweep(trials: list[Trial]) -> State[Any]:
    """Run every trial; the state's data is the list of results, including failed ones."""
    with stop_on_exit():
        futures = [run.submit(trial) for trial in trials]
        wait(futures)
    results = [result_of(trial, future.state) for trial, future in zip(trials, futures, strict=True)]
    create_artifact(results)
    return Completed(message=f"{len(results)} runs", data=results)
