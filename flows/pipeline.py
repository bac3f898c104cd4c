"""Run of the pipeline: python -m flows.pipeline, or make run.

    python -m flows.pipeline --dataset mr --systems transformer_f,tfidf_svm --seeds 0,1,2 --set seeds=[0,1]

A run with --dataset, --systems, --seeds or --set works in its own workspace, in .epigram/workspaces.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epigram.core.config_types import parse_yaml, shown
from epigram.core.display import echo
from epigram.core.errors import EpigramError, ParameterError, TryAgainError, handle_errors, run_typer
from epigram.core.settings import read_params
from epigram.data.sources.access import redact_address
from epigram.runner.prefect import prefect_adapter, ray_address
from epigram.runner.prefect.publish import Run, RunFailedError
from epigram.runner.service import server
from epigram.runner.service.server import Server
from epigram.runner.workspace import overrides, reservations
from epigram.runner.workspace.request import Request

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

MAX_DIGITS = 10  # maximum digits of an integer option
WIDTH = 120  # width of the comparison table if stdout is no terminal
LATE_IMPORTS = ("dvc.repo", "networkx", "fastapi.encoders")  # imported by Prefect and DVC at the flow's first step

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@handle_errors
def main(
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
        typer.Option(
            "--set", help="Override a key of params.yaml: KEY=VALUE, for example seeds=[0,1]. May be repeated."
        ),
    ] = None,
    max_parallel: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of parallel stages. Default: the number of processors.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the run. Default: data set and time.")] = "",
    ray: Annotated[
        str, typer.Option(help="Ray cluster that executes the stages: local, auto, HOST:PORT or ray://HOST:PORT.")
    ] = "",
) -> None:
    """Bring every stage of the pipeline up to date and print the comparison."""
    request = Request(
        root=Path.cwd(),
        dataset=dataset or None,
        systems=tuple(split_list(systems)),
        seeds=tuple(parse_number("--seeds", seed) for seed in split_list(seeds)),
        changes=to_unique_dict("--set", map(parse_change, set_ or [])),
        max_parallel=max_parallel,
        name=name or None,
        ray=ray or None,
    )
    run = execute(request)
    sys.exit(print_report(run, request.root))


def execute(request: Request) -> Run:
    """Check the request, run it through Prefect, and return the run. Raises the error that ended the run."""
    overrides.check(request)
    _note_unsuitable_systems(request)
    reservations.check_not_referenced(request.root, [request.name] if request.name else [])
    ray_address.ping(request.ray)
    api = server.start()  # starts while this process imports the flow's modules
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from epigram.runner.prefect import ray_cluster
    from flows.dag import pipeline

    for module in LATE_IMPORTS:
        importlib.import_module(module)
    api.wait()
    own = temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None})  # stopping Prefect's heartbeat takes a second
    with own, ray_cluster.connect(request.ray, request.root, request.max_parallel) as workers:
        result = run_flow(api, lambda: pipeline.with_options(task_runner=workers)(request, return_state=True))
    if isinstance(result, RunFailedError):
        return result.run
    if not isinstance(result, Run):
        raise EpigramError(f"the flow ended with {result!r:.200} instead of a run")
    return result


def _note_unsuitable_systems(request: Request) -> None:
    """Print to stderr which systems of params.yaml are left out for the chosen data set."""
    if request.dataset and not request.systems and not request.revision:
        params = {**read_params(request.root / "params.yaml"), "dataset": request.dataset}
        for name in overrides.unsuitable_systems(params, request.root):
            echo(f"note: skipping {name}: {request.dataset} does not have the labels that it requires", file=sys.stderr)


def run_flow(api: Server, flow: Callable[[], State[Any]]) -> Any:
    """Run `flow` and return the data of its final state, which is a RunFailedError if a stage failed.

    Raises TryAgainError if the server stopped responding, ParameterError if it requires a password, otherwise the
    flow's own error.
    """
    try:
        result = flow().result(raise_on_failure=False)
    except Exception as error:
        result = error
    if not isinstance(result, BaseException) or isinstance(result, RunFailedError):
        return result
    if _is_unauthorized(result):
        raise ParameterError(
            f"the Prefect server at {redact_address(api.url)} requires authentication; set "
            "PREFECT_API_AUTH_STRING to the value of its PREFECT_SERVER_API_AUTH_STRING"
        )
    if prefect_adapter.is_unreachable(result):
        where = redact_address(api.url)
        raise TryAgainError(
            f"the Prefect server at {where} stopped responding; rerun the command, finished stages are not repeated"
        )
    raise result


def _is_unauthorized(error: BaseException) -> bool:
    """Return whether Prefect's server rejected the credentials."""
    import httpx

    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED


def print_report(run: Run, root: Path) -> int:
    """Print the comparison and the report's path, or the failure; return the exit code."""
    folder = (root / "runs" / run.name).relative_to(root)
    if failure := run.failure:
        echo(f"error: {failure.stage} failed (exit {failure.code}): {failure.message}", file=sys.stderr)
        return failure.code
    echo(f"{run.executed} of {len(run.stages)} stages executed in {run.wall_seconds:.1f} s")
    if run.summary:
        from rich.console import Console

        from epigram.report.terminal import comparison_table

        Console(width=None if sys.stdout.isatty() else WIDTH).print(comparison_table(run.summary))
        echo(f"report: {folder / 'report.html'}")
        echo(f'model:  {folder / "model"}  (to try it: epigram predict {folder / "model"} "a text")')
    return 0


def split_list(text: str) -> list[str]:
    """Return the parts of a comma-separated option."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_number(option: str, text: str) -> int:
    """Parse a whole number of an option. Raises ParameterError if it is invalid."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        value = shown(repr(text))
        raise ParameterError(f"invalid {option} {value}: expected comma-separated integers, for example 0,1,2")
    return int(text)


def to_unique_dict(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the keys and values of an option as a dictionary. Raises ParameterError for a repeated key."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ParameterError(f"{option} {shown(key)} is given twice; remove one of them")
        values[key] = value
    return values


def parse_change(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE, with a key of params.yaml. Raises ParameterError if it is invalid."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ParameterError(f"invalid --set {text!r}: expected KEY=VALUE, for example --set seeds=[0,1]")
    try:
        return key, parse_yaml(value)
    except ValueError as error:
        raise ParameterError(f"invalid --set {key}: {shown(repr(value))} is not a YAML value ({error})") from None


if __name__ == "__main__":
    run_typer(app)
