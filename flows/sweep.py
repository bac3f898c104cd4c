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

from epigram.core.config_types import parsed_yaml, shown
from epigram.core.display import echo
from epigram.core.errors import ParameterError, handle_errors, started
from epigram.runner.prefect import markdown, ray_address, ray_cluster
from epigram.runner.prefect.sweep import RUNS, Result, Trial, best, cells, run, table, taken_over, trials
from epigram.runner.service import server
from epigram.runner.workspace import overrides, reservations
from epigram.runner.workspace.request import Request
from flows.pipeline import WIDTH, change, ended, listed, number, unique

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@flow(name="sweep")
def sweep(asked: list[Trial]) -> State[Any]:
    """Run every trial; the state's data is the list of results, including failed ones."""
    try:
        futures = [run.submit(trial) for trial in asked]
        wait(futures)
    finally:  # runs end with the sweep, however it ends
        RUNS.stop()
    results = [taken_over(trial, future.state) for trial, future in zip(asked, futures, strict=True)]
    create_markdown_artifact(markdown.sweep(*cells(results), [each.told() for each in best(results)]), key="sweep")
    return Completed(message=f"{len(results)} runs", data=results)


@app.command()
@handle_errors
def main(
    over: Annotated[list[str], typer.Option(help="KEY=V1,V2: a key of params.yaml and its values; may repeat.")],
    dataset: Annotated[str, typer.Option(help="A file of data/sources.")] = "",
    systems: Annotated[str, typer.Option(help="Names, with commas between; all for every one.")] = "",
    seeds: Annotated[str, typer.Option(help="Numbers, with commas between.")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE, the same for every run.")] = None,
    max_parallel: Annotated[int | None, typer.Option(min=1, help="Runs at a time; the number of processors.")] = None,
    name: Annotated[str, typer.Option(help="What the runs' names begin with; sweep and the time.")] = "",
    ray: Annotated[str, typer.Option(help="A Ray cluster for the runs: local, auto, HOST:PORT.")] = "",
) -> None:
    """Run every combination, each on one processor, and print them by development score."""
    root = Path.cwd()
    base = Request(
        root=root,
        dataset=dataset or None,
        systems=tuple(listed(systems)),
        seeds=tuple(number("--seeds", seed) for seed in listed(seeds)),
        changes=unique("--set", map(change, set_ or [])),
        max_parallel=1,
    )
    prefix = reservations.reserve(root, name or None, "sweep")
    with reservations.until_end(root, prefix):
        asked = trials(base, unique("--over", map(_dimension, over)), prefix)
        results = execute(asked, root, prefix, max_parallel or os.cpu_count() or 1, ray or None)
    sys.exit(_report(results))


def execute(asked: list[Trial], root: Path, name: str, at_once: int, ray: str | None = None) -> list[Result]:
    """Check every trial, then run all of them.

    Raises ParameterError if a trial is invalid, TryAgainError if the Prefect server or the Ray cluster does not
    respond.
    """
    reservations.refuse_pointed(root, [str(trial.request.name) for trial in asked])
    for trial in asked:
        overrides.check(trial.request)
    ray_address.knock(ray)
    api = server.start()
    api.wait()
    with ray_cluster.joined(ray, root, at_once) as workers:
        runner: Any = workers or ThreadPoolTaskRunner(max_workers=at_once)
        this = sweep.with_options(task_runner=runner, flow_run_name=name)
        results: list[Result] = ended(api, lambda: this(asked, return_state=True))
    return results


def _report(results: list[Result]) -> int:
    """Print the runs and the best of each data set; return the exit code of the first failed run."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDTH).print(table(results))
    for chosen in best(results):
        echo(f"best on dev: {chosen.told()}\nreport: runs/{chosen.run}/report.html")
    for result in results:
        if result.code:
            echo(f"error: {result.run}: {result.message}", file=sys.stderr)
    return next((result.code for result in results if result.code), 0)


def _dimension(text: str) -> tuple[str, list[Any]]:
    key, equals, values = text.partition("=")
    try:
        found = parsed_yaml(f"[{values}]")
    except ValueError as error:
        raise ParameterError(f"--over {key}: {shown(repr(values))} has what is no YAML value ({error})") from None
    if not equals or not key or not found:
        raise ParameterError(f"--over was {text!r}: KEY=V1,V2 is allowed, as in --over dataset=mr,ced")
    return key, found


if __name__ == "__main__":
    started(app)
