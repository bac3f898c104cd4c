"""One run of a sweep."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.client.schemas.objects import State

from epigram.runner.prefect.stage import task_options
from epigram.runner.prefect.sweep import Trial, run_trial


@task(**task_options("run") | {"task_run_name": "{trial.request.name}"})
def run(trial: Trial) -> State[Any]:
    """Run the pipeline with the settings of the trial, in a child process."""
    return run_trial(trial)
