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

from epigram.core.settings import dataset_of
from epigram.runner.dvc import graph, lock_order
from epigram.runner.dvc.dvc_output import told
from epigram.runner.dvc.graph import Graph
from epigram.runner.prefect import heartbeat, publish, ray_cluster
from epigram.runner.prefect.publish import Record, Run, RunFailedError
from epigram.runner.prefect.slots import Slots, needed
from epigram.runner.prefect.stage import DELAYS, Outcome, Runner, stage_task
from epigram.runner.prefect.status_table import Board
from epigram.runner.workspace import overrides, reservations, workspace
from epigram.runner.workspace.request import Request


def _run_name() -> str:
    request: Request = runtime.flow_run.parameters["request"]
    dataset = request.dataset or dataset_of(request.root / "params.yaml")
    return reservations.reserve(request.root, request.name, dataset)


@flow(name="pipeline", flow_run_name=_run_name)
def pipeline(request: Request, retry_delays: tuple[float, ...] = DELAYS) -> State[Any]:
    """Run every stage that is not up to date and write runs/NAME/; the state's data is the Run, or a RunFailedError.

    A stage with a retryable exit code is retried after each of `retry_delays` (seconds).
    """
    began = time.monotonic()
    name = runtime.flow_run.name
    with reservations.until_end(request.root, name), heartbeat.given(), workspace.opened(request) as place:
        stages = graph.read(place.path)
        params, idle = place.path / "params.yaml", len(stages.current) == len(stages)
        if not request.revision and not idle:
            overrides.check_systems(params)
        board = Board(stages.stages, Console(stderr=True))
        total = request.max_parallel or os.cpu_count() or 1
        runner = Runner(place.path, board, Slots(total, {} if idle else needed(params)))
        with lock_order.in_order(place.path, stages):
            outcomes = _run_stages(stages, runner, retry_delays, remote=bool(request.ray))
        failed = [(name, outcome) for name, outcome in outcomes.items() if outcome.code]
        run = Run(
            name=name,
            dataset=place.dataset,
            revision=place.revision,
            wall_seconds=time.monotonic() - began,
            stages={name: Record(state=row.state, seconds=round(row.worked, 3)) for name, row in board.rows.items()},
            code=failed[0][1].code if failed else 0,
            message=f"{failed[0][0]}: {failed[0][1].message}" if failed else "",
            comparison={} if failed else publish.comparison(stages, place),
        )
        publish.create_artifacts(run, stages, publish.write_run(run, stages, place))
    if run.code:
        return Failed(message=f"{failed[0][0]}: {told(failed[0][1].message)[0]}", data=RunFailedError(run))
    return Completed(message=f"{run.executed} of {len(stages)} stages executed", data=run)


def _run_stages(stages: Graph, runner: Runner, delays: tuple[float, ...], *, remote: bool) -> dict[str, Outcome]:
    """Run the graph; return the outcomes of the stages that were started, in order of completion."""
    tasks = {
        stage.name: stage_task(
            ray_cluster.Remote(runner.root) if remote else runner,
            stage.name,
            current=stage.name in stages.current,
            delays=delays,
        )
        for stage in stages
    }
    with runner.board.live():
        try:
            (ray_cluster.run if remote else _run)(stages, tasks, runner)
        finally:  # stages end with the flow, however it ends
            runner.stop()
    return runner.outcomes


def _run(stages: Graph, tasks: dict[str, Task[[], State[Any]]], runner: Runner) -> None:
    """Submit all tasks at once; each waits for its dependencies."""
    futures: dict[str, PrefectFuture[Any]] = {}
    for stage in stages:
        needed = [futures[need] for need in sorted(stage.needs)]
        futures[stage.name] = tasks[stage.name].submit(return_state=False, wait_for=needed)
    wait(list(futures.values()))
    for name, future in futures.items():
        if name not in runner.outcomes:
            runner.take_over(name, future.state)
