"""epigram run: the pipeline of the project in the current folder."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from epigram.cli.options import Changes, Dataset, Ray, Seeds, Systems, make_request
from epigram.cli.project import find_flow


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
) -> None:
    """Bring every stage of the pipeline up to date and print the comparison.

    A run with --dataset, --systems, --seeds or --set works in its own workspace, in .epigram/workspaces.

    Example: epigram run --dataset mr --systems transformer_f,tfidf_svm --seeds 0,1,2
    """
    flow = find_flow("run", "pipeline", "pipeline")
    request = make_request(
        dataset=dataset,
        systems=systems,
        seeds=seeds,
        changes=set_,
        max_parallel=max_parallel,
        name=name,
        ray=ray,
    )
    from epigram.cli.run_report import print_run
    from epigram.runner.prefect.execution import execute

    sys.exit(print_run(execute(request, flow), request.root))
