"""Drift of new texts from those of the champion."""

from __future__ import annotations

from pathlib import Path

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from epigram.runner.retraining.drift import Drift, check, markdown_table


@task(name="drift", task_run_name="drift", cache_policy=NO_CACHE, persist_result=False)
def drift(root: Path, file: Path | None) -> Drift | None:
    """Measure the waiting texts, or those of `file`, and show the result; return None without a champion."""
    result = check(root, file)
    if result is not None:
        create_markdown_artifact(f"**{result}**\n\n{markdown_table(result)}", key="drift")
    return result
