"""Deployments of prefect.yaml, in a work pool whose runs start in the repository's folder."""

from __future__ import annotations

import os
import re
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterNextScheduledStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed
from prefect.workers.process import ProcessWorker

from epigram.core.errors import ParameterError
from epigram.runner import child_process
from epigram.runner.service import server
from epigram.runner.service.server import FILE, POOL

TRACEBACK_END = re.compile(r"^[\w.]*(?:Error|Exception|NotFound): .*", re.MULTILINE)  # the last line of a traceback


def create_work_pool(root: Path) -> None:
    """Create or update the work pool.

    The pool sets its own command, so that a run stays in the worker's process group and ends with the worker. Prefect's
    default starts the run in another process group, which survives a killed worker.
    """
    template: dict[str, Any] = ProcessWorker.get_default_base_job_template()
    defaults = {"command": shlex.join([sys.executable, "-m", "prefect.engine"]), "working_dir": str(root)}
    for name, value in defaults.items():
        template["variables"]["properties"][name]["default"] = value
    with get_client(sync_client=True) as client:
        try:
            client.read_work_pool(POOL)
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=POOL, type="process", base_job_template=template))
        else:
            client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=template))


def deploy(root: Path, expected: list[str]) -> None:
    """Deploy all of prefect.yaml (the names in `expected`) and delete the pool's other deployments.

    Raises ParameterError if a deployment of prefect.yaml fails.
    """
    log = server.home() / "deploy.log"
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", FILE]
    with log.open("w", encoding="utf-8") as file:
        child = child_process.start(command, cwd=root, env={**os.environ, "PWD": str(root)}, stdout=file, stderr=file)
        try:
            code = child.wait()
        finally:
            child_process.terminate(child)
    _check_deployed(expected, code, log)


def close_lost_runs(*, stopped: bool) -> None:
    """Mark the pool's unfinished runs as Cancelled if `stopped`, otherwise as Crashed: no worker executes them."""
    end: State[Any] = Crashed(message="the service that ran it no longer exists")
    if stopped:
        end = Cancelled(message="the service was stopped")
    with get_client(sync_client=True) as client:
        unfinished = FlowRunFilter(state=_types("RUNNING", "PENDING", "CANCELLING"))
        for run in client.read_flow_runs(flow_run_filter=unfinished, work_pool_filter=_own_pool()):
            client.set_flow_run_state(run.id, end, force=True)


def delete_missed_runs() -> None:
    """Delete the runs that became due while the service was down."""
    due = FlowRunFilterNextScheduledStartTime.model_validate({"before_": datetime.now(UTC)})
    missed = FlowRunFilter(state=_types("SCHEDULED"), next_scheduled_start_time=due)
    with get_client(sync_client=True) as client:
        while page := client.read_flow_runs(flow_run_filter=missed, work_pool_filter=_own_pool()):
            for run in page:
                client.delete_flow_run(run.id)


def _types(*names: str) -> FlowRunFilterState:
    return FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType(name) for name in names]))


def _own_pool() -> WorkPoolFilter:
    return WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))


def _check_deployed(expected: list[str], code: int, log: Path) -> None:
    """Check that all of `expected` is deployed, and delete other deployments."""
    with get_client(sync_client=True) as client:
        deployed = {each.name: each.id for each in client.read_deployments(work_pool_filter=_own_pool())}
        missing = [name for name in expected if name not in deployed]
        if code or missing:
            errors = TRACEBACK_END.findall(log.read_text(encoding="utf-8", errors="replace")) or [
                "prefect deploy skipped it"
            ]
            raise ParameterError(f"{FILE}: cannot deploy {', '.join(missing or expected)}: {errors[-1]}; see {log}")
        for name in deployed.keys() - set(expected):
            client.delete_deployment(deployed[name])
