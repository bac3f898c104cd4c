"""epigram dashboard: server, dashboard, worker and schedules of the project in the current folder."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Annotated

import typer

from epigram.cli.projects.project import enter_project


def main(
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="Port of the dashboard, which listens on this machine only; 0 for any free port."
        ),
    ] = 4200,
) -> None:
    """Start server, dashboard and worker, and run what prefect.yaml schedules until Ctrl-C.

    Scheduled runs of the pipeline and refreshes of the part-of-speech words use the last commit, in workspaces of their
    own. Retrainings and drift checks use your files with uncommitted changes.

    Example: epigram dashboard --port 4200
    """
    root = enter_project("dashboard", "flows.pipeline")
    from epigram.runner.service import process_manager, service_lock

    for number in (signal.SIGINT, signal.SIGTERM):  # one handler for both; background jobs of a shell ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    code = [str(root), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, code))  # scheduled runs are separate processes
    with service_lock.acquire(root) as record, contextlib.suppress(KeyboardInterrupt):
        process_manager.serve(root, port, record)
