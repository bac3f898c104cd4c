"""Service for the repository: python -m flows.serve, or make serve.

To end it: python -m flows.serve --stop, or make stop.

prefect.yaml defines what is scheduled, and when. A scheduled run uses the last commit, in its own workspace, whatever
the state of the working tree.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from epigram.core.display import echo
from epigram.core.errors import handle_errors, run_typer
from epigram.runner.prefect.ray_address import MAX_PORT
from epigram.runner.service import process_manager, service_lock

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@handle_errors
def main(
    port: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_PORT, help="Port of the dashboard, which listens on this machine only; 0 for any free port."
        ),
    ] = 4200,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the service of this repository, with everything that it runs.")
    ] = False,
) -> None:
    """Start server, dashboard and worker, and run what prefect.yaml schedules until Ctrl-C."""
    if stop:
        service = service_lock.stop()
        echo(f"stopped process {service.process}" if service else "no service is running for this repository")
        return
    for number in (signal.SIGINT, signal.SIGTERM):  # one handler for both; background jobs of a shell ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    code = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, code))  # scheduled runs are separate processes
    record_url = service_lock.acquire()
    with contextlib.suppress(KeyboardInterrupt):
        process_manager.serve(Path.cwd(), port, lambda url: _announce(url, record_url))


def _announce(url: str, record_url: Callable[[str], None]) -> None:
    record_url(url)
    echo(f"dashboard: {url} (stop it with Ctrl-C or make stop)", flush=True)


if __name__ == "__main__":
    run_typer(app)
