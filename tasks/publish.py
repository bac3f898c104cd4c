"""Results of a run, in runs/NAME/ and in the dashboard."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from epigram.runner.prefect.pipeline_run import PipelineRun
from epigram.runner.runs.publish import Run


@task(name="publish", task_run_name="publish", cache_policy=NO_CACHE, persist_result=False)
def publish(run: PipelineRun) -> Run:
    """Write the summary, the report and the chosen model of the run, and show them in the dashboard."""
    return run.publish()
