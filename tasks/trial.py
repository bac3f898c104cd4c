"""One run of a sweep."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State

from epigram.runner.prefect.sweep import Trial, run_trial


@task(name="run", task_run_name="{trial.request.name}", cache_policy=NO_CACHE, persist_result=False)
def run(trial: Trial) -> State[Any]:
    """Run the pipeline with the settings of the trial, in a child process."""
    return run_trial(trial)
