"""New labelled rows, added to the growing data set."""

from __future__ import annotations

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from epigram.runner.retraining.ingest import Ingestion
from epigram.runner.retraining.retraining import Session


@task(name="ingest", task_run_name="ingest", cache_policy=NO_CACHE, persist_result=False)
def ingest(session: Session) -> Ingestion:
    """Add the waiting rows to the growing data set, and log the files that were skipped."""
    ingestion = session.ingest()
    get_run_logger().info("%s", ingestion)
    for line in ingestion.skipped:
        get_run_logger().error("%s", line)
    return ingestion
