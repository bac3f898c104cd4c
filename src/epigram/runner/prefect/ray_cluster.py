"""Stages and runs on the workers of a Ray cluster, through Prefect's Ray task runner (the extra `ray`).

The workers must see the repository under the same path: on the same machine, or on a shared disk.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from epigram.core.errors import TryAgainError
from epigram.core.extras import require
from epigram.runner.dvc.graph import Graph, Stage
from epigram.runner.prefect.artifacts import StatusTable
from epigram.runner.prefect.ray_address import LOCAL
from epigram.runner.prefect.stage import Runner
from epigram.runner.scheduling.gpus import GpuPool, stages_per_gpu
from epigram.runner.scheduling.slots import Slots

if TYPE_CHECKING:
    from prefect.futures import PrefectFuture
    from prefect.task_runners import TaskRunner

# Otherwise Ray kills the process that supervises a stage, which could then not terminate the stage.
KEEP_SUPERVISOR = {"RAY_kill_child_processes_on_worker_exit": "false"}
PASSED_PREFIXES = ("PREFECT_", "EPIGRAM_", "OMP_")  # prefixes of the environment variables that a worker needs


@contextmanager
def remote_runner(root: Path, name: str, *, hides_gpus: bool, max_silence: float | None = None) -> Iterator[Runner]:
    """Yield a runner of one stage of the workspace `root`, on the Ray worker of its task.

    The worker's process supervises the stage: when the worker ends, the stage is terminated. The status table of the
    run is in another process. `hides_gpus`: the stage has no GPU, which Ray does not tell it.
    """
    all_gpus = GpuPool(("all",) if hides_gpus else ())  # the stage gets none of them
    table, slots = StatusTable([name], Console(quiet=True)), Slots(1, gpus=all_gpus)
    runner = Runner(root, table, slots, max_silence=max_silence)
    try:
        yield runner
    finally:
        runner.stop()


@contextmanager
def connect(
    address: str | None, root: Path, slots: int | None = None
) -> Iterator[TaskRunner[PrefectFuture[Any]] | None]:
    """Connect to the Ray cluster at `address` and yield its task runner; yield None if `address` is None.

    `address` is `local`, `auto`, HOST:PORT or ray://HOST:PORT. A local cluster runs `slots` tasks at a time. Raises
    MissingPackageError if Ray is not installed, TryAgainError if the cluster does not respond.
    """
    if address is None:
        yield None
        return
    require("--ray", "ray", "ray", "prefect_ray")
    import ray
    from prefect_ray import RayTaskRunner

    try:
        ray.init(address=address, **_ray_options(address, root, slots))
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise TryAgainError(
            f"cannot connect to a Ray cluster at {address}: {' '.join(str(error).split())[:200]}"
        ) from None
    try:
        yield RayTaskRunner()
    finally:
        ray.shutdown()


def _ray_options(address: str, root: Path, slots: int | None) -> dict[str, Any]:
    """Return Ray's options: the workers import the code of `root` and use Prefect's settings of this process."""
    from prefect.settings import get_current_settings

    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    settings |= {name: value for name, value in os.environ.items() if name.startswith(PASSED_PREFIXES)}
    code = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    settings |= {"PYTHONPATH": os.pathsep.join(filter(None, code)), **KEEP_SUPERVISOR}
    # Ray starts a worker with a shell command and does not quote the path of Python in it.
    environment = {"env_vars": settings, "py_executable": shlex.quote(sys.executable)}
    options = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": environment}
    if address == LOCAL:
        os.environ.update(KEEP_SUPERVISOR)
        options |= {"num_cpus": slots or os.cpu_count(), "include_dashboard": False}
    return options


def gpus_per_node() -> int:
    """Return the number of GPUs of the node with the most, in the cluster to which this process is connected."""
    import ray

    nodes: Any = ray.nodes  # has no types
    return max((int(node["Resources"].get("GPU", 0)) for node in nodes() if node["Alive"]), default=0)


def reserve_gpus(count: int) -> AbstractContextManager[Any]:
    """Return a context in which a submitted task gets `count` GPUs of its worker's node; Ray hides all others from it.

    A single GPU is shared with other stages if EPIGRAM_STAGES_PER_GPU says so.
    """
    from prefect_ray.context import remote_options

    reserved: AbstractContextManager[Any] = remote_options(num_gpus=1 / stages_per_gpu() if count == 1 else count)
    return reserved


def ready_stages(stages: Graph, futures: Mapping[str, PrefectFuture[Any]], runner: Runner) -> Iterator[Stage]:
    """Yield each stage once its dependencies have finished: a waiting task would occupy a worker process.

    Of several stages, the stage with the longest remaining path comes first.

    The caller submits the task of each stage and adds its future to `futures`.
    """
    running: dict[Any, str] = {}
    finished: set[str] = set()
    while len(finished) < len(stages):
        for stage in map(stages.stages.__getitem__, runner.slots.schedule.names):
            if stage.name not in futures and stage.needs <= finished:
                runner.table.start(stage.name)
                yield stage
                running[futures[stage.name]] = stage.name
        name = running.pop(first_finished(running))
        futures[name].wait()
        runner.record_state(name, futures[name].state)
        finished.add(name)


def first_finished(futures: Collection[Any]) -> Any:
    """Wait until one of Prefect's `futures` has finished, and return it."""
    import ray

    references = {future.wrapped_future: future for future in futures}
    return references[ray.wait(list(references))[0][0]]
