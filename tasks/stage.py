"""A stage of dvc.yaml as a Prefect task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State

from epigram.runner.dvc.graph import Stage
from epigram.runner.prefect.pipeline_run import PipelineRun
from epigram.runner.prefect.stage import is_retryable


def stage_task(run: PipelineRun, stage: Stage, retry_delays: Sequence[float]) -> Task[[], State[Any]]:
    """Return the task of a stage, which runs `dvc repro --single-item` in a child process.

    After an exit code that may be temporary, such as 69 or 75, it is retried after each of `retry_delays` (seconds).
    """
    as_task = task(
        name=stage.name,
        task_run_name=stage.name,
        retries=len(retry_delays),
        retry_delay_seconds=list(retry_delays),
        retry_condition_fn=is_retryable,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    return as_task(run.attempt(stage, retry_delays))
