"""Body of the flow `pipeline`: the workspace of a run, its graph, the processes of its stages, and its result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from prefect import runtime
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture, wait
from prefect.states import Completed, Failed
from rich.console import Console

from epigram.core.errors import EpigramError
from epigram.core.settings import dataset_of
from epigram.process.outcome import Outcome
from epigram.process.signals import interrupt_waits
from epigram.runner.dvc import graph
from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.prefect import heartbeat, ray_cluster
from epigram.runner.prefect.artifacts import StatusTable
from epigram.runner.prefect.stage import OpenRunner, Runner, stage_attempt
from epigram.runner.runs import publish, reservations
from epigram.runner.runs.publish import Run, StageResult
from epigram.runner.scheduling.gpus import GpuPool, stages_per_gpu, visible_gpus
from epigram.runner.scheduling.planned_systems import read_systems
from epigram.runner.scheduling.slots import Schedule, Slots, set_needs
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.workspace import Workspace, open_workspace

Futures = Mapping[str, PrefectFuture[Any]]  # futures by stage name


class RunFailedError(EpigramError):
    """Error for a run in which the stage of `failure` failed, with its exit code."""

    def __init__(self, run: Run, failure: Outcome) -> None:
        super().__init__(f"{failure.stage} failed (exit {failure.code}): {failure.message}")
        self.run, self.code = run, failure.code


class PipelineRun:
    """A run in progress: its name, request, workspace and graph."""

    def __init__(
        self, request: Request, workspace: Workspace, name: str, started_at: float, until: Path | None = None
    ) -> None:
        self.request, self.workspace, self.name = request, workspace, name
        self._started_at, self._until = started_at, until
        self._futures: Futures = {}
        self._prepare()

    def _prepare(self) -> None:
        """Read the graph, decide on the order of its stages, and make a table and a runner for them."""
        workspace, request = self.workspace, self.request
        self.graph = graph.read(workspace.path)
        if self._until is not None:
            self.graph = self.graph.up_to(workspace.path / self._until)
        params, up_to_date = workspace.path / "params.yaml", len(self.graph.current) == len(self.graph)
        if not request.revision and not up_to_date:
            overrides.check_systems(params)
        self._table = StatusTable(self.graph.stages, Console(stderr=True))
        self._systems = {} if up_to_date else read_systems(params)
        self._runner = Runner(
            workspace.path, self._table, self._slots(), self._set_needs_after, max_silence=request.max_silence
        )
        self._set_needs()  # reads the data of an earlier run

    def _slots(self) -> Slots:
        """Return the slots of the run, which its stages take in the order of their remaining paths."""
        total = self.request.max_parallel or os.cpu_count() or 1
        names = () if self.request.ray else visible_gpus()
        self._available = ray_cluster.gpus_per_node() if self.request.ray else len(names)
        pool = GpuPool(names, sharing=stages_per_gpu())
        return Slots(total, schedule=Schedule(self.graph), gpus=pool)

    def _set_needs_after(self, stage: str) -> None:
        """When the data have been validated, set what the other stages need."""
        if self._validated in self.graph.stages[stage].outs:
            self._set_needs()

    def _set_needs(self) -> None:
        set_needs(self._runner.slots, self.graph, self._systems, self._available, self._validated)

    @property
    def _validated(self) -> Path:
        return self.workspace.path / "data" / "validated"

    def stages(self, futures: Futures) -> Iterator[Stage]:
        """Yield each stage, after its dependencies, as soon as its task can be submitted; then wait for all tasks.

        The caller adds the future of each task to `futures`.
        """
        self._futures = futures
        submit = ray_cluster.ready_stages if self.request.ray else all_stages
        from epigram.runner.dvc.adapter import sort_lock_file_on_exit

        with sort_lock_file_on_exit(self.workspace.path, self.graph.stages), self._table.live():
            yield from submit(self.graph, futures, self._runner)

    def resources(self, stage: Stage) -> AbstractContextManager[Any]:
        """Return the context in which the task of `stage` is submitted: in a Ray cluster with GPUs, it reserves some.

        Without Ray, the stage waits for its GPUs in `Slots`.
        """
        return ray_cluster.reserve_gpus(self._gpus(stage)) if self.request.ray and self._available else nullcontext()

    def _gpus(self, stage: Stage) -> int:
        return min(self._available, self._runner.slots.gpus.needed.get(stage.name, 0))

    def attempt(self, stage: Stage, delays: Sequence[float]) -> Callable[[], State[Any]]:
        """Return the function that a stage's task calls for each of its attempts."""
        if self.request.ray:
            open_runner: OpenRunner = partial(
                ray_cluster.remote_runner,
                self._runner.root,
                stage.name,
                hides_gpus=self._available > 0 and not self._gpus(stage),
                max_silence=self.request.max_silence,
            )
        else:
            open_runner = self._open_runner
        return stage_attempt(open_runner, stage.name, current=stage.name in self.graph.current, delays=delays)

    def _open_runner(self) -> AbstractContextManager[Runner]:
        return nullcontext(self._runner)

    def stop(self) -> None:
        """Terminate all running stages and start no new ones."""
        self._runner.stop()

    def publish(self) -> Run:
        """Write runs/NAME/ and create the artifacts of the dashboard; return the result of the run."""
        run = self.result()
        folder = publish.write_run(run, self.graph, self.workspace)
        publish.create_artifacts(run, self.graph, folder, self._log_of(run.failure))
        return run

    def _log_of(self, failed: Outcome | None) -> str:
        """Return the address of the log of a stage, relative to a page of the dashboard; it has no known host."""
        future = self._futures.get(failed.stage) if failed else None
        return f"../../runs/task-run/{future.task_run_id}" if future else ""

    @property
    def failure(self) -> Outcome | None:
        """Outcome of the stage that failed first."""
        return next((outcome for outcome in self._runner.outcomes.values() if outcome.code), None)

    def results(self) -> dict[str, StageResult]:
        """Return the result of each stage by its name."""
        return {
            name: StageResult(state=row.state, seconds=round(row.work_seconds, 3))
            for name, row in self._table.rows.items()
        }

    def result(self) -> Run:
        """Return the result of the run so far."""
        return Run(
            name=self.name,
            dataset=self.workspace.dataset,
            revision=self.workspace.revision,
            wall_seconds=time.monotonic() - self._started_at,
            stages=self.results(),
            failure=self.failure,
            comparison={} if self.failure else publish.comparison(self.graph, self.workspace),
        )


def reserve_name() -> str:
    """Reserve the name of the flow run: the requested one, or one made of the data set and the time."""
    request: Request = runtime.flow_run.parameters["request"]
    dataset = request.dataset or dataset_of(request.root / "params.yaml")
    return reservations.reserve(request.root, request.name, dataset)


@contextmanager
def open_run(request: Request, until: Path | None = None) -> Iterator[PipelineRun]:
    """Prepare and lock the workspace of a run, send heartbeats, and terminate all stages at the end.

    With `until`, the run has only the stage that writes this folder, and its dependencies.
    """
    started_at, name = time.monotonic(), str(runtime.flow_run.name)
    with (
        reservations.release_on_exit(request.root, name),
        heartbeat.send_heartbeats(),
        open_workspace(request) as workspace,
    ):
        run = PipelineRun(request, workspace, name, started_at, until)
        interrupt_waits()  # the checks of the request may have imported Polars
        try:
            yield run
        finally:  # stages end with the flow, however it ends
            run.stop()


def all_stages(stages: Graph, futures: Futures, runner: Runner) -> Iterator[Stage]:
    """Yield all stages at once, because each task waits for its dependencies in a thread; then wait for all tasks."""
    yield from stages
    wait(list(futures.values()))
    for name, future in futures.items():
        if name not in runner.outcomes:
            runner.record_state(name, future.state)


def final_state(run: Run) -> State[Any]:
    """Return the state of the flow; its data is the run, or a RunFailedError if a stage failed."""
    if failure := run.failure:
        return Failed(message=f"{failure.stage}: {failure.summary}", data=RunFailedError(run, failure))
    return Completed(message=f"{run.executed} of {len(run.stages)} stages executed", data=run)
