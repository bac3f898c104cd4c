"""Comparison of a new model with the champion."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from epigram.runner.retraining.challenge import Challenge
from epigram.runner.retraining.retraining import TrainedTree
from epigram.runner.runs.publish import Run


@task(name="challenge", task_run_name="challenge", cache_policy=NO_CACHE, persist_result=False)
def challenge(tree: TrainedTree, run: Run) -> Challenge:
    """Compare the model that the run chose with the champion, on the development texts."""
    return tree.challenge(run)
