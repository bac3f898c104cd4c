"""Serve the pipeline with Prefect's dashboard and a nightly run: python -m flows.serve, or make serve.

A scheduled run takes the last commit, in a workspace of its own, whatever the tree looks like at that hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pithy.errors import guarded
from tasks import server

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@guarded
def main(
    cron: Annotated[str, typer.Option(help="When to run, as in a crontab.")] = "0 3 * * *",
    every: Annotated[float | None, typer.Option(min=1, help="Seconds between two runs, instead of --cron.")] = None,
    port: Annotated[int, typer.Option(help="Of the dashboard, on this machine only; 0 for any.")] = 4200,
) -> None:
    """Start server and dashboard, and run the pipeline on a schedule until Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):  # one way to stop; a shell's background has Ctrl-C switched off
        signal.signal(number, signal.default_int_handler)
    code = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, code))  # scheduled runs are processes of their own
    api = server.start_dashboard(port)
    try:
        api.wait()
        print(f"dashboard: {api.url} (Ctrl-C stops it)", flush=True)
        serve({"interval": every} if every else {"cron": cron})
    finally:
        api.stop()


def serve(schedule: dict[str, Any]) -> None:
    """Deploy the pipeline with `schedule` and run what is due, until interrupted."""
    from prefect.deployments.runner import RunnerDeployment
    from prefect.runner import Runner
    from prefect.types.entrypoint import EntrypointType

    from flows.dag import pipeline

    class Stoppable(Runner):
        def handle_sigterm(self, *_: Any, **__: Any) -> None:
            """Stop as for Ctrl-C: Prefect's own handler cannot, from inside the running loop."""
            signal.raise_signal(signal.SIGINT)

    runner = Stoppable(name="pipeline")
    # By its module's name: a flow that is handed over as an object is pickled, and loses its annotations.
    deployment = pipeline.to_deployment(
        name="scheduled",
        parameters={"request": {"root": str(Path.cwd()), "revision": "HEAD"}},
        entrypoint_type=EntrypointType.MODULE_PATH,
        **schedule,
    )
    runner.add_deployment(cast(RunnerDeployment, deployment))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(runner.start())


if __name__ == "__main__":
    app()
