"""The pipeline as a Prefect flow: one task per stage of dvc.yaml, with independent stages in parallel."""

from __future__ import annotations

import os
import time
from typing import Any

from prefect import Task, flow, runtime
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture, wait
from prefect.states import Completed, Failed
from rich.console import Console

from epigram.core.outcome import Outcome
from epigram.core.settings import dataset_of
from epigram.runner.dvc import graph, lock_order
from epigram.runner.dvc.graph import Graph
from epigram.runner.prefect import heartbeat, publish, ray_cluster
from epigram.runner.prefect.publish import Run, RunFailedError, StageResult
from epigram.runner.prefect.slots import Slots, slots_by_system
from epigram.runner.prefect.stage import RETRY_DELAYS, Runner, stage_task
from epigram.runner.prefect.status_table import StatusTable
from epigram.runner.workspace import overrides, reservations
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import open_workspace


def _run_name() -> str:
    request: Request = runtime.flow_run.parameters["request"]
    dataset = request.dataset or dataset_of(request.root / "params.yaml")
    return reservations.reserve(request.root, request.name, dataset)


@flow(name="pipeline", flow_run_name=_run_name)
def pipeline(request: Request, retry_delays: tuple[float, ...] = RETRY_DELAYS) -> State[Any]:
    """Run every stage that is not up to date and write runs/NAME/; the state's data is the Run, or a RunFailedError.

    A stage with a retryable exit code is retried after each of `retry_delays` (seconds).
    """
    started_at = time.monotonic()
    name = runtime.flow_run.name
    with (
        reservations.release_on_exit(request.root, name),
        heartbeat.send_heartbeats(),
        open_workspace(request) as workspace,
    ):
        stages = graph.read(workspace.path)
        params, up_to_date = workspace.path / "params.yaml", len(stages.current) == len(stages)
        if not request.revision and not up_to_date:
            overrides.check_systems(params)
        table = StatusTable(stages.stages, Console(stderr=True))
        total = request.max_parallel or os.cpu_count() or 1
        runner = Runner(workspace.path, table, Slots(total, {} if up_to_date else slots_by_system(params)))
        with lock_order.sort_on_exit(workspace.path, stages):
            outcomes = _run_stages(stages, runner, retry_delays, remote=bool(request.ray))
        failure = next((outcome for outcome in outcomes.values() if outcome.code), None)
        run = Run(
            name=name,
            dataset=workspace.dataset,
            revision=workspace.revision,
            wall_seconds=time.monotonic() - started_at,
            stages={
                name: StageResult(state=row.state, seconds=round(row.work_seconds, 3))
                for name, row in table.rows.items()
            },
            failure=failure,
            comparison={} if failure else publish.comparison(stages, workspace),
        )
        publish.create_artifacts(run, stages, publish.write_run(run, stages, workspace))
    if failure:
        return Failed(message=f"{failure.stage}: {failure.summary}", data=RunFailedError(run))
    return Completed(message=f"{run.executed} of {len(stages)} stages executed", data=run)


def _run_stages(stages: Graph, runner: Runner, delays: tuple[float, ...], *, remote: bool) -> dict[str, Outcome]:
    """Run the graph; return the outcomes of the stages that were started, in order of completion."""
    tasks = {
        stage.name: stage_task(
            ray_cluster.RemoteRunner(runner.root) if remote else runner,
            stage.name,
            current=stage.name in stages.current,
            delays=delays,
        )
        for stage in stages
    }
    with runner.table.live():
        try:
            (ray_cluster.run_stages if remote else _run)(stages, tasks, runner)
        finally:  # stages end with the flow, however it ends
            runner.stop()
    return runner.outcomes


def _run(stages: Graph, tasks: dict[str, Task[[], State[Any]]], runner: Runner) -> None:
    """Submit all tasks at once; each waits for its dependencies."""
    futures: dict[str, PrefectFuture[Any]] = {}
    for stage in stages:
        dependencies = [futures[need] for need in sorted(stage.needs)]
        futures[stage.name] = tasks[stage.name].submit(return_state=False, wait_for=dependencies)
    wait(list(futures.values()))
    for name, future in futures.items():
        if name not in runner.outcomes:
            runner.record_state(name, future.state)
