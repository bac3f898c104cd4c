"""Runs of the pipeline over a grid of settings: python -m flows.sweep.

    python -m flows.sweep --systems textcnn --over dataset=mr,ced --over seeds=[0],[1]

Each combination is a separate run in its own workspace. docs/scale.md explains how to use several machines.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.futures import wait
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from epigram.core.config_types import parse_yaml, shown
from epigram.core.display import echo
from epigram.core.errors import ParameterError, handle_errors, run_typer
from epigram.runner.prefect import markdown, ray_address, ray_cluster
from epigram.runner.prefect.sweep import (
    CHILD_RUNS,
    Result,
    Trial,
    best_per_dataset,
    make_trials,
    result_of,
    results_table,
    run,
    table_cells,
)
from epigram.runner.service import server
from epigram.runner.workspace import overrides, reservations
from epigram.runner.workspace.request import Request
from flows.pipeline import WIDTH, parse_change, parse_number, run_flow, split_list, to_unique_dict

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@flow(name="sweep")
def sweep(trials: list[Trial]) -> State[Any]:
    """Run every trial; the state's data is the list of results, including failed ones."""
    try:
        futures = [run.submit(trial) for trial in trials]
        wait(futures)
    finally:  # runs end with the sweep, however it ends
        CHILD_RUNS.stop()
    results = [result_of(trial, future.state) for trial, future in zip(trials, futures, strict=True)]
    create_markdown_artifact(
        markdown.sweep(*table_cells(results), [each.describe() for each in best_per_dataset(results)]), key="sweep"
    )
    return Completed(message=f"{len(results)} runs", data=results)


@app.command()
@handle_errors
def main(
    over: Annotated[
        list[str],
        typer.Option(help="Key of params.yaml and its values: KEY=V1,V2, for example dataset=mr,ced. May be repeated."),
    ],
    dataset: Annotated[
        str,
        typer.Option(
            help="Data set: the name of a file in data/sources, for example mr. Default: dataset in params.yaml."
        ),
    ] = "",
    systems: Annotated[
        str, typer.Option(help='Comma-separated system names, or "all". Default: the systems in params.yaml.')
    ] = "",
    seeds: Annotated[
        str, typer.Option(help="Comma-separated seeds, for example 0,1,2. Default: seeds in params.yaml.")
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a key of params.yaml in every run: KEY=VALUE. May be repeated."),
    ] = None,
    max_parallel: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of parallel runs. Default: the number of processors.")
    ] = None,
    name: Annotated[str, typer.Option(help="Prefix of the runs' names. Default: sweep and time.")] = "",
    ray: Annotated[
        str, typer.Option(help="Ray cluster that executes the runs: local, auto, HOST:PORT or ray://HOST:PORT.")
    ] = "",
) -> None:
    """Run every combination, each on one processor, and print the runs sorted by dev score."""
    root = Path.cwd()
    base = Request(
        root=root,
        dataset=dataset or None,
        systems=tuple(split_list(systems)),
        seeds=tuple(parse_number("--seeds", seed) for seed in split_list(seeds)),
        changes=to_unique_dict("--set", map(parse_change, set_ or [])),
        max_parallel=1,
    )
    prefix = reservations.reserve(root, name or None, "sweep")
    with reservations.release_on_exit(root, prefix):
        trials = make_trials(base, to_unique_dict("--over", map(_parse_dimension, over)), prefix)
        results = execute(trials, root, prefix, max_parallel or os.cpu_count() or 1, ray or None)
    sys.exit(_report(results))


def execute(trials: list[Trial], root: Path, name: str, at_once: int, ray: str | None = None) -> list[Result]:
    """Check every trial, then run all of them.

    Raises ParameterError if a trial is invalid, TryAgainError if the Prefect server or the Ray cluster does not
    respond.
    """
    reservations.check_not_referenced(root, [str(trial.request.name) for trial in trials])
    for trial in trials:
        overrides.check(trial.request)
    ray_address.ping(ray)
    api = server.start()
    api.wait()
    with ray_cluster.connect(ray, root, at_once) as workers:
        runner: Any = workers or ThreadPoolTaskRunner(max_workers=at_once)
        configured = sweep.with_options(task_runner=runner, flow_run_name=name)
        results: list[Result] = run_flow(api, lambda: configured(trials, return_state=True))
    return results


def _report(results: list[Result]) -> int:
    """Print the runs and the best of each data set; return the exit code of the first failed run."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDTH).print(results_table(results))
    for chosen in best_per_dataset(results):
        echo(f"best on dev: {chosen.describe()}\nreport: runs/{chosen.run}/report.html")
    for result in results:
        if result.code:
            echo(f"error: {result.run}: {result.message}", file=sys.stderr)
    return next((result.code for result in results if result.code), 0)


def _parse_dimension(text: str) -> tuple[str, list[Any]]:
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


if __name__ == "__main__":
    run_typer(app)
