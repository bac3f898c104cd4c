"""epigram run: the pipeline of the project in the current folder."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    name: Annotated[str, typer.Option(help="Name of the run. Default: data set and time.")] = "",
    ray: Ray = "",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Choose systems and settings within a time: 90s, 20m or 1h.")
    ] = "",
    quality: Annotated[str, typer.Option(help="With --budget: fast, good or best. Default: good.")] = "",
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run the systems and settings that --budget chose before.")
    ] = None,
) -> None:
    """Bring every stage of the pipeline up to date and print the comparison.

    A run with --dataset, --systems, --seeds or --set works in its own workspace, in .epigram/workspaces. With --budget,
    systems are tried on parts of the training texts first, and the choice is written to runs/NAME/plan.yaml.

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
        name=name,
        ray=ray,
    )
    from epigram.cli.runs.run_report import print_run
    from epigram.runner.prefect.execution import execute

    if budget or quality or plan is not None:
        request = _planned(request, started, budget, quality, plan)
    print_run(execute(request, flow), request.root)


def _planned(request: Request, started: float, budget: str, quality: str, plan: Path | None) -> Request:
    """Return the request with the plan in a file, or with the plan of a search."""
    from epigram.core.settings import dataset_of
    from epigram.runner.search.execute import execute_search
    from epigram.workflow.search.goal import parse_goal
    from epigram.workflow.search.plan import read_plan

    if request.systems or request.changes or request.seeds:
        raise ParameterError("--budget and --plan set systems, settings and seeds; remove --systems, --seeds and --set")
    if plan is not None:
        if budget or quality or request.dataset:
            raise ParameterError("--plan has the data set and the settings; remove --budget, --quality and --dataset")
        found = read_plan(plan)
        return replace(request, dataset=found.dataset, plan=found)
    if not budget:
        raise ParameterError("--quality needs a time budget: epigram run --budget 20m --quality best")
    goal = parse_goal(budget, quality or "good")
    asked = replace(request, dataset=request.dataset or dataset_of(request.root / "params.yaml"))
    if goal.warning:
        echo(goal.warning, file=sys.stderr)
    return execute_search(asked, goal, started, find_flow("run", "flows.search.search"))
