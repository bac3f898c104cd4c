"""epigram run: the pipeline of the project in the current folder."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epigram.cli.options import Changes, Dataset, Ray, Seeds, Systems, make_request
from epigram.cli.projects.project import find_flow
from epigram.core.errors import ParameterError
from epigram.process.display import echo

if TYPE_CHECKING:
    from epigram.runner.workspace.request import Request


def main(
    dataset: Dataset = "",
    systems: Systems = "",
    seeds: Seeds = "",
    set_: Changes = None,
    max_parallel: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of parallel stages. Default: the number of processors.")
    ] = None,
    max_silence: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="End a stage that prints nothing for so long, and try it again. Default: never.",
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the run. Default: data set and time.")] = "",
    ray: Ray = "",
    search: Annotated[str, typer.Option(metavar="TIME", help="First search for the best system: 90s, 20m or 1h.")] = "",
    track: Annotated[
        Literal["mlflow"] | None,
        typer.Option(help="Also log the run to MLflow, at the address in MLFLOW_TRACKING_URI (docs/tracking.md)."),
    ] = None,
) -> None:
    """Bring every stage of the pipeline up to date and print the comparison.

    A run with --dataset, --systems, --seeds or --set works in its own workspace, in .epigram/workspaces. With --search,
    systems are tried on the project's data within the time, params.yaml gets the best one, and the run trains it.

    Example: epigram run --dataset mr --systems transformer_f,tfidf_svm --seeds 0,1,2
    """
    started = time.monotonic()
    flow = find_flow("run", "flows.pipeline.pipeline")
    request = make_request(
        dataset=dataset,
        systems=systems,
        seeds=seeds,
        changes=set_,
        max_parallel=max_parallel,
        max_silence=max_silence,
        name=name,
        ray=ray,
    )
    from epigram.cli.runs.run_report import print_run
    from epigram.runner.prefect.execution import execute
    from epigram.runner.runs.mlflow_log import log_run, require_mlflow
    from epigram.runner.workspace.pinned_checkpoints import pin_checkpoints

    if track:
        require_mlflow()
    params = request.root / "params.yaml"
    for told in pin_checkpoints(params) if params.is_file() else []:
        echo(told, file=sys.stderr)
    if search:
        _search(request, search, started)
    print_run(run := execute(request, flow), request.root)
    if track:
        log_run(run, request)


def _search(request: Request, budget: str, started: float) -> None:
    """Search for the best system for the project's data, and write it into params.yaml."""
    from epigram.fitting.stopwatch import parse_budget
    from epigram.runner.search import execute_search

    if request.overrides:
        raise ParameterError("--search chooses for params.yaml; remove --dataset, --systems, --seeds and --set")
    own = replace(request, name=None, ray=None)
    execute_search(own, parse_budget(budget), started, find_flow("run", "flows.search.search"))
