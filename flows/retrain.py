"""Retraining on new rows, and promotion of a better model to champion.

The section `retrain` of params.yaml defines where new rows arrive and what a challenger must achieve; see
docs/retraining.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from epigram.runner.retraining.retraining import open_session
from flows.pipeline import pipeline
from tasks.retraining import challenge, ingest, promote


@flow(name="retrain")
def retrain(root: Path | str = ".", dataset: str | None = None) -> State[Any]:
    """Ingest new rows, run the pipeline on all rows, and promote the chosen model if it beats the champion.

    `dataset` is the base data set; if None, that of the champion or of params.yaml. The state's data is a Retraining.
    If files were skipped, the state is Failed, and its message names them, so that a notice is sent.
    Raises TryAgainError if another retraining is running, DataError for new rows that break a rule.
    """
    with open_session(Path(root).resolve(), dataset) as session:
        ingestion = ingest(session)
        request = session.request(ingestion)
        run: Any = pipeline(request, return_state=True).result()
        with session.open_tree(request) as tree:
            challenged = challenge(tree, run)
            if challenged.decision.promoted:
                promote(tree, challenged)
            result = session.result(run, ingestion, challenged)
    create_markdown_artifact(result.as_markdown(), key="champion")
    if result.skipped:
        return Failed(message="\n".join([result.outcome, *result.skipped]), data=result)
    return Completed(name="Promoted" if result.promoted else "Refused", message=result.reason, data=result)
