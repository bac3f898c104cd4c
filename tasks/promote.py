"""Promotion of a new model to champion."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from epigram.runner.champions.champion import Champion
from epigram.runner.retraining.challenge import Challenge
from epigram.runner.retraining.retraining import TrainedTree


@task(name="promote", task_run_name="promote", cache_policy=NO_CACHE, persist_result=False)
def promote(tree: TrainedTree, challenged: Challenge) -> Champion:
    """Make the challenger the champion: a commit, a tag, and the link runs/champion."""
    return tree.promote(challenged)
