"""Retraining on new rows, and promotion of a better model to champion: python -m flows.retrain.

    python -m flows.retrain --show
    python -m flows.retrain --rollback

`retrain` in params.yaml defines where new rows arrive and what a challenger must achieve; see docs/retraining.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from epigram.core.display import echo, escape_markdown
from epigram.core.errors import DataError, EpigramError, ParameterError, TryAgainError, handle_errors, run_typer
from epigram.runner.dvc import graph
from epigram.runner.prefect.publish import Run, RunFailedError
from epigram.runner.retraining import challenge, champion, drift, ingest
from epigram.runner.retraining.champion import Champion
from epigram.runner.retraining.ingest import Ingestion
from epigram.runner.service import server
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.settings import load
from epigram.runner.workspace.workspace import open_workspace
from flows.dag import pipeline
from flows.pipeline import print_report, run_flow

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """Result of a retraining: the champion, which is the new or still the old one, and the reason."""

    promoted: bool
    reason: str
    run: str
    ingestion: Ingestion
    champion: Champion


@flow(name="retrain")
def retrain(root: Path | str = ".", dataset: str | None = None) -> State[Any]:
    """Ingest new rows, run the pipeline on all rows, and promote the chosen model if it beats the champion.

    `dataset` is the base data set; if None, that of the champion or of params.yaml. The state's data is a Retraining.
    Raises TryAgainError if another retraining is running, DataError for new rows that break a rule.
    """
    root = Path(root).resolve()
    settings = load(root / "params.yaml")
    with champion.lock(root):
        latest = champion.current(root)
        name = ingest.grown_name(dataset or (latest.dataset if latest else settings.dataset))
        challenge.check_dataset(latest, name)
        champion.check_can_promote(root)
        ingestion = _as_task("ingest")(ingest.ingest_rows)(root, name, settings)
        get_run_logger().info("%s", ingestion)
        for line in ingestion.skipped:
            get_run_logger().error("%s", line)
        request = Request(root=root, dataset=ingestion.dataset, systems=tuple(settings.retrain.systems))
        run = _run_pipeline(request)
        result = _as_task("challenge")(_challenge)(request, run, ingestion)
    create_markdown_artifact(_page(result), key="champion")
    skipped = f"; skipped files: {len(ingestion.skipped)}" if ingestion.skipped else ""
    return Completed(
        name="Promoted" if result.promoted else "Refused", message=f"{result.reason}{skipped}", data=result
    )


def _as_task(name: str) -> Any:
    """Return a decorator for a Prefect task without caching: DVC decides what is up to date."""
    return task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)


def _run_pipeline(request: Request) -> Run:
    """Run the pipeline and return the run. Raises the error that ended it."""
    overrides.check(request)
    result: Any = pipeline(request, return_state=True).result(raise_on_failure=False)
    if isinstance(result, BaseException):
        raise result
    if not isinstance(result, Run):
        raise EpigramError("the pipeline ended without a result")
    return result


def _challenge(request: Request, run: Run, ingestion: Ingestion) -> Retraining:
    """Compare the run's model with the champion in the run's tree, and promote it if it qualifies."""
    root, settings = request.root, load(request.root / "params.yaml")
    with open_workspace(request) as workspace:
        stages = graph.read(workspace.path)
        if len(stages.current) < len(stages):
            raise TryAgainError(f"the files of {root} changed during the retraining; start it again")
        challenged = challenge.challenge(root, workspace.path, stages, run, settings)
        decision, entry = challenged.decision, replace(challenged.challenger, verdict=challenged.decision.reason)
        if decision.promoted:
            reference = drift.reference(workspace.path / entry.model, stages)
            latest: Champion | None = champion.promote(root, workspace.path, entry, reference)
        else:
            latest = champion.current(root)
    assert latest is not None
    return Retraining(
        promoted=decision.promoted, reason=decision.reason, run=run.name, ingestion=ingestion, champion=latest
    )


def _page(result: Retraining) -> str:
    outcome = "Promoted" if result.promoted else "Refused"
    reason, *details = map(
        escape_markdown, (result.reason, str(result.ingestion), f"run: {result.run}", str(result.champion))
    )
    return "\n".join([f"**{outcome}**: {reason}", "", *(f"* {detail}" for detail in details), ""])


def call_flow(flow: Any, root: Path, *arguments: Any) -> Any:
    """Run a flow on the existing Prefect server, or on one for this run alone, and return the data of its state.

    Exits with the stage's own exit code if a run of the pipeline failed. Raises the flow's own error.
    """
    api = server.start()
    api.wait()
    result = run_flow(api, lambda: flow(root, *arguments, return_state=True))
    if isinstance(result, RunFailedError):
        sys.exit(print_report(result.run, root))
    return result


@app.command()
@handle_errors
def main(
    dataset: Annotated[
        str,
        typer.Option(
            help="Base data set: the name of a file in data/sources. Default: that of the champion, or of params.yaml."
        ),
    ] = "",
    rollback: Annotated[bool, typer.Option("--rollback", help="Restore the previous champion.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the champion and all earlier ones.")] = False,
) -> None:
    """Retrain on new rows; promote the new model if it beats the champion, otherwise print the reason."""
    root = Path.cwd()
    if rollback and show:
        raise ParameterError("--rollback and --show cannot be combined; use one of them")
    if rollback:
        with champion.lock(root):
            echo(champion.rollback(root))
    elif show:
        echo("\n".join(f"{each}\n  {each.verdict}" for each in champion.history(root)) or "no champion yet")
    else:
        _retrain(root, dataset)


def _retrain(root: Path, dataset: str) -> None:
    result: Retraining = call_flow(retrain, root, dataset or None)
    echo(result.ingestion)
    echo(f"{'promoted' if result.promoted else 'refused'}: {result.reason}")
    echo(f"{result.champion}\nmodel:  runs/champion/model")
    if result.ingestion.skipped:
        raise DataError("\n".join(result.ingestion.skipped))


if __name__ == "__main__":
    run_typer(app)
