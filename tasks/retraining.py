"""Tasks of a retraining and of a drift check."""

from __future__ import annotations

from pathlib import Path

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from epigram.runner.champions.champion import Champion
from epigram.runner.prefect.stage import RETRIES, is_retryable
from epigram.runner.retraining.challenge import Challenge
from epigram.runner.retraining.drift import Drift, check, markdown_table
from epigram.runner.retraining.ingest import Ingestion, ingest_rows
from epigram.runner.retraining.retraining import Session, TrainedTree
from epigram.runner.runs.publish import Run


@task(
    name="ingest",
    task_run_name="ingest",
    cache_policy=NO_CACHE,
    persist_result=False,
    retry_condition_fn=is_retryable,
    **RETRIES,
)
def ingest(session: Session) -> Ingestion:
    """Add the waiting rows to the growing data set, and log the files that were skipped."""
    ingestion = ingest_rows(session.root, session.dataset, session.settings)
    get_run_logger().info("%s", ingestion)
    for line in ingestion.skipped:
        get_run_logger().error("%s", line)
    return ingestion


@task(name="challenge", task_run_name="challenge", cache_policy=NO_CACHE, persist_result=False)
def challenge(tree: TrainedTree, run: Run) -> Challenge:
    """Compare the model that the run chose with the champion, on the development texts."""
    return tree.challenge(run)


@task(name="promote", task_run_name="promote", cache_policy=NO_CACHE, persist_result=False)
def promote(tree: TrainedTree, challenged: Challenge) -> Champion:
    """Make the challenger the champion: a commit, a tag, and the link runs/champion."""
    return tree.promote(challenged)


@task(
    name="drift",
    task_run_name="drift",
    cache_policy=NO_CACHE,
    persist_result=False,
    retry_condition_fn=is_retryable,
    **RETRIES,
)
def drift(root: Path, file: Path | None) -> Drift | None:
    """Measure the waiting texts, or those of `file`, and show the result; return None without a champion."""
    result = check(root, file)
    if result is not None:
        create_markdown_artifact(f"**{result}**\n\n{markdown_table(result)}", key="drift")
    return result
