"""epigram sweep: the pipeline over a grid of settings."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epigram.cli.options import Changes, Dataset, Ray, Seeds, Systems, make_request, to_unique_dict
from epigram.cli.projects.project import find_flow
from epigram.core.config_types import parse_yaml, shown
from epigram.core.errors import ParameterError
from epigram.process.display import echo

if TYPE_CHECKING:
    from epigram.runner.prefect.sweep import Result


def main(
    over: Annotated[
        list[str],
        typer.Option(help="Key of params.yaml and its values: KEY=V1,V2, for example dataset=mr,ced. May be repeated."),
    ],
    dataset: Dataset = "",
    systems: Systems = "",
    seeds: Seeds = "",
    set_: Changes = None,
    max_parallel: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of parallel runs. Default: the number of processors.")
    ] = None,
    name: Annotated[str, typer.Option(help="Prefix of the runs' names. Default: sweep and time.")] = "",
    ray: Ray = "",
) -> None:
    """Run the pipeline for every combination of settings, and print the runs sorted by dev score.

    Each combination is a separate run in its own workspace. A run starts one stage at a time, with one processor.
    Only an encoder that starts from a checkpoint trains with all of them: use --max-parallel 1 for such systems.

    Example: epigram sweep --systems textcnn --over dataset=mr,ced --over seeds=[0],[1]
    """
    flow = find_flow("sweep", "flows.sweep.sweep")
    base = make_request(dataset=dataset, systems=systems, seeds=seeds, changes=set_, max_parallel=1)
    from epigram.runner.prefect.execution import execute_sweep
    from epigram.runner.prefect.sweep import make_trials
    from epigram.runner.runs import reservations

    prefix = reservations.reserve(base.root, name or None, "sweep")
    with reservations.release_on_exit(base.root, prefix):
        trials = make_trials(base, to_unique_dict("--over", map(parse_dimension, over)), prefix)
        results = execute_sweep(trials, flow, prefix, max_parallel or os.cpu_count() or 1, ray or None)
    sys.exit(_report(results))


def parse_dimension(text: str) -> tuple[str, list[Any]]:
    """Parse KEY=V1,V2, with a key of params.yaml. Raises ParameterError if it is invalid."""
    key, equals, values = text.partition("=")
    try:
        parsed = parse_yaml(f"[{values}]")
    except ValueError as error:
        raise ParameterError(
            f"invalid --over {key}: {shown(repr(values))} contains an invalid YAML value ({error})"
        ) from None
    if not equals or not key or not parsed:
        raise ParameterError(f"invalid --over {text!r}: expected KEY=V1,V2, for example --over dataset=mr,ced")
    return key, parsed


def _report(results: list[Result]) -> int:
    """Print the runs and the best of each data set; return the exit code of the first failed run."""
    from epigram.cli.runs.run_report import print_failures, print_table
    from epigram.report.terminal import terminal_table
    from epigram.runner.prefect.sweep import best_per_dataset, results_table

    print_table(terminal_table(results_table(results)))
    for chosen in best_per_dataset(results):
        echo(f"best on dev: {chosen.describe()}\nreport: runs/{chosen.run}/report.html")
    return print_failures(results)
