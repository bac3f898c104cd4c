"""Tasks of a run: one for each stage of dvc.yaml, and one for the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import Task, task
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture

from epigram.runner.dvc.graph import Stage
from epigram.runner.prefect.pipeline_run import PipelineRun
from epigram.runner.prefect.stage import RETRY_DELAYS, task_options
from epigram.runner.runs.publish import Run


def run_stages(run: PipelineRun, retry_delays: Sequence[float]) -> None:
    """Submit the task of each stage, which waits for those of its dependencies, and wait for all of them."""
    futures: dict[str, PrefectFuture[Any]] = {}
    for stage in run.stages(futures):
        dependencies = [futures[name] for name in sorted(stage.needs)]
        stage_run = stage_task(run, stage, retry_delays)
        with run.resources(stage):
            futures[stage.name] = stage_run.submit(return_state=False, wait_for=dependencies)


def stage_task(run: PipelineRun, stage: Stage, retry_delays: Sequence[float]) -> Task[[], State[Any]]:
    """Return the task of a stage, which runs `dvc repro --single-item` in a child process.

    After an exit code that may be temporary, such as 69 or 75, it is retried after each of `retry_delays` (seconds).
    """
    return task(**task_options(stage.name, retry_delays))(run.attempt(stage, retry_delays))


@task(**task_options("publish", RETRY_DELAYS))
def publish(run: PipelineRun) -> Run:
    """Write the summary, the report and the chosen model of the run, and show them in the dashboard."""
    return run.publish()
