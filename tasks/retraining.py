"""Tasks of a retraining and of a drift check."""

from __future__ import annotations

from pathlib import Path

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact

from epigram.runner.champions.champion import Champion
from epigram.runner.prefect.stage import RETRY_DELAYS, task_options
from epigram.runner.retraining.challenge import Challenge
from epigram.runner.retraining.drift import Drift, check, markdown_table
from epigram.runner.retraining.ingest import Ingestion, ingest_rows
from epigram.runner.retraining.retraining import Session, TrainedTree
from epigram.runner.runs.publish import Run


@task(**task_options("ingest", RETRY_DELAYS))
def ingest(session: Session) -> Ingestion:
    """Add the waiting rows to the growing data set, and log the files that were skipped."""
    ingestion = ingest_rows(session.root, session.dataset, session.settings)
    get_run_logger().info("%s", ingestion)
    for line in ingestion.skipped:
        get_run_logger().error("%s", line)
    return ingestion


@task(**task_options("challenge"))
def challenge(tree: TrainedTree, run: Run) -> Challenge:
    """Compare the model that the run chose with the champion, on the development texts."""
    return tree.challenge(run)


@task(**task_options("promote"))
def promote(tree: TrainedTree, challenged: Challenge) -> Champion:
    """Make the challenger the champion: a commit, a tag, and the link runs/champion."""
    return tree.promote(challenged)


@task(**task_options("drift", RETRY_DELAYS))
def drift(root: Path, file: Path | None) -> Drift | None:
    """Measure the waiting texts, or those of `file`, and show the result; return None without a champion."""
    result = check(root, file)
    if result is not None:
        create_markdown_artifact(f"**{result}**\n\n{markdown_table(result)}", key="drift")
    return result
