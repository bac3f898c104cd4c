"""Runs of flows for the command line: the checks before a run, the Prefect server, and the result of the flow."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Console

from epigram.core.errors import EpigramError, ParameterError, TryAgainError
from epigram.data.sources.access import redact_address
from epigram.process.display import echo
from epigram.process.signals import raise_on_signals
from epigram.process.startup import no_collection
from epigram.runner.dvc import graph
from epigram.runner.prefect import ray_address
from epigram.runner.prefect.artifacts import StatusTable
from epigram.runner.runs import publish, reservations
from epigram.runner.runs.publish import Run, StageResult
from epigram.runner.scheduling.slots import needed_gpus, share_gpus
from epigram.runner.service import prefect_adapter, server
from epigram.runner.service.server import Server
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import LOCK_FILE, open_workspace, workspace_folder

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

    from epigram.runner.prefect.sweep import Result, Trial
    from epigram.runner.workspace.settings import Settings

LATE_IMPORTS = ("dvc.repo", "networkx", "fastapi.encoders")  # imported by Prefect and DVC at the flow's first step
CHECKS = "epigram.training.preflight"  # checks of the systems, in PipelineRun; imports PyTorch

Load = Callable[[], Any]  # imports a flow, and with it Prefect, while the server starts


def execute(request: Request, load: Load) -> Run:
    """Check the request, run the flow `pipeline`, and return the run. Raises the error that ended the flow.

    Without a Prefect server, none is started if every stage is up to date.
    """
    overrides.check(request)
    for name, reason in ({} if request.revision else overrides.left_out(request)).items():
        echo(f"note: skipping {name}: {reason}", file=sys.stderr)
    check_place(request)
    if server.running() is None and (done := finish_if_up_to_date(request)):
        return done
    api, flow = start_server(load, CHECKS)
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from epigram.runner.prefect import ray_cluster

    own = temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None})  # stopping Prefect's heartbeat takes a second
    with own, ray_cluster.connect(request.ray, request.root, request.max_parallel) as workers:
        run: Run = run_flow(api, lambda: flow.with_options(task_runner=workers)(request, return_state=True))
    return run


def finish_if_up_to_date(request: Request) -> Run | None:
    """Write runs/NAME/ and return the run if every stage is up to date; return None if a stage has to run.

    No Prefect server is needed, whose start takes longer than all the rest. Raises TryAgainError while another run
    works in the same tree.
    """
    started_at = time.monotonic()
    if not (workspace_folder(request) / LOCK_FILE).exists():  # no lock file: nothing has run yet
        return None
    with raise_on_signals(), open_workspace(request) as workspace:
        stages = graph.read(workspace.path)
        if len(stages.current) < len(stages):
            return None
        name = reservations.reserve(request.root, request.name, workspace.dataset)
        with reservations.release_on_exit(request.root, name):
            table = StatusTable(stages.stages, Console(stderr=True))
            with table.live():
                for stage in stages.stages:
                    table.stop(stage, "Cached")
            run = Run(
                name=name,
                dataset=workspace.dataset,
                revision=workspace.revision,
                wall_seconds=time.monotonic() - started_at,
                stages=dict.fromkeys(stages.stages, StageResult(state="Cached", seconds=0.0)),
                comparison=publish.comparison(stages, workspace),
            )
            publish.write_run(run, stages, workspace)
    return run


def check_place(request: Request) -> None:
    """Raise ParameterError if a file refers to a run of the name, TryAgainError if the Ray cluster does not respond."""
    reservations.check_not_referenced(request.root, [request.name] if request.name else [])
    ray_address.ping(request.ray)


def execute_sweep(trials: list[Trial], load: Load, name: str, at_once: int, ray: str | None = None) -> list[Result]:
    """Check every trial, then run all of them in the flow `sweep`.

    Raises ParameterError if a trial is invalid, TryAgainError if the Prefect server or the Ray cluster does not
    respond.
    """
    root = trials[0].request.root
    reservations.check_not_referenced(root, [str(trial.request.name) for trial in trials])
    checked = {str(trial.request.name): overrides.check(trial.request) for trial in trials}
    settings = {name: found for name, found in checked.items() if found is not None}
    ray_address.ping(ray)
    api, flow = start_server(load)
    from prefect.task_runners import ThreadPoolTaskRunner

    from epigram.runner.prefect import ray_cluster

    with ray_cluster.connect(ray, root, at_once) as workers, _gpus(settings, at_once, on_ray=bool(ray)):
        runner: Any = workers or ThreadPoolTaskRunner(max_workers=at_once)
        configured = flow.with_options(task_runner=runner, flow_run_name=name)
        results: list[Result] = run_flow(api, lambda: configured(trials, return_state=True))
    return results


def _gpus(settings: Mapping[str, Settings], at_once: int, *, on_ray: bool) -> AbstractContextManager[Any]:
    """Return the context in which the trials with these settings get their GPUs, from Ray or of this machine."""
    from epigram.runner.prefect import ray_cluster

    if not on_ray:
        return share_gpus(settings, at_once)
    if not (most := ray_cluster.gpus_per_node()):
        return nullcontext()
    return ray_cluster.reserve_gpus(min(most, max(map(needed_gpus, settings.values()))))


def call_flow(load: Load, *arguments: Any) -> Any:
    """Run a flow on the existing Prefect server, or on one for this run alone, and return the data of its state.

    Raises the error that ended the flow.
    """
    api, flow = start_server(load)
    return run_flow(api, lambda: flow(*arguments, return_state=True))


def start_server(load: Load, *modules: str, check: Callable[[], object] = lambda: None) -> tuple[Server, Any]:
    """Return a Prefect server that responds, and the flow, which is imported while the server starts.

    If this process starts the server, it has time to import `modules` as well. `check` is called meanwhile, too; the
    server ends with the error that it raises.
    """
    api = server.start()
    try:
        with no_collection():
            check()
            flow = load()
            for module in (*LATE_IMPORTS, *modules) if api.child else LATE_IMPORTS:
                importlib.import_module(module)
        api.wait()
    except BaseException:
        api.stop()
        raise
    return api, flow


def run_flow(api: Server, flow: Callable[[], State[Any]]) -> Any:
    """Run `flow` and return the data of its final state.

    Raises TryAgainError if the server stopped responding, ParameterError if it requires a password, otherwise the
    error that is the data: a RunFailedError if a stage failed, or the flow's own.
    """
    api.watch()
    try:
        with raise_on_signals():
            result = flow().result(raise_on_failure=False)
        if isinstance(result, BaseException):
            raise result
    except EpigramError:
        raise
    except Exception as error:
        raise _of_server(error, redact_address(api.url)) from None
    return result


def _of_server(error: Exception, address: str) -> Exception:
    """Return the error for the user if the Prefect server at `address` is the cause, otherwise `error`."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED:
        return ParameterError(
            f"the Prefect server at {address} requires authentication; set "
            "PREFECT_API_AUTH_STRING to the value of its PREFECT_SERVER_API_AUTH_STRING"
        )
    return TryAgainError(server.lost_message(address)) if prefect_adapter.is_unreachable(error) else error
