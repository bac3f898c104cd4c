"""A trial of a search."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from epigram.runner.search.session import SearchSession
from epigram.workflow.search.halving import Answer, Ask


@task(
    name="trial", task_run_name="{ask.spec.name} on {ask.spec.rows} rows", cache_policy=NO_CACHE, persist_result=False
)
def measure(session: SearchSession, ask: Ask) -> Answer:
    """Train a system on a part of train, in a child process.

    Return its score and cost, its error, or None if it takes too long.
    """
    return session.answer(ask)
