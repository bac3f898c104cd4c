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

from epigram.runner.retraining.retraining import open_session, restore_data, withdraw_file
from flows.pipeline import pipeline
from tasks.retraining import challenge, ingest, promote


@flow(name="retrain")
def retrain(
    root: Path | str = ".", dataset: str | None = None, rebuild: bool = False, forget: str | None = None
) -> State[Any]:
    """Ingest new rows, run the pipeline on all rows, and promote the chosen model if it beats the champion.

    `dataset` is the base data set; if None, that of the champion or of params.yaml. The state's data is a Retraining.
    If files were skipped, the state is Failed, and its message names them, so that a notice is sent. With `rebuild`,
    the data set's file is only restored; with `forget`, the rows of that accepted file are only withdrawn.
    Raises TryAgainError if another retraining is running, DataError for new rows that break a rule.
    """
    root = Path(root).resolve()
    if rebuild or forget:
        changed = withdraw_file(root, dataset, forget) if forget else restore_data(root, dataset)
        return Completed(message=str(changed), data=changed)
    with open_session(root, dataset) as session:
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
