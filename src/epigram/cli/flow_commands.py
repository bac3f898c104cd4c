"""Commands that run a flow of the project in the current folder, with the options of the flow's own command line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer

from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.extras import require

PACKAGES = ("dvc", "prefect")  # of the extra `pipeline`
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


class FlowCommand(NamedTuple):
    """Module of a flow, the arguments that come before the user's, and the line in the list of commands."""

    module: str
    help: str
    arguments: tuple[str, ...] = ()


COMMANDS = {
    "run": FlowCommand("flows.pipeline", "Run the stages that are not up to date and print the comparison."),
    "sweep": FlowCommand("flows.sweep", "Run the pipeline over a grid of settings."),
    "retrain": FlowCommand("flows.retrain", "Take in new rows, train challengers and promote a better one."),
    "drift": FlowCommand("flows.drift", "Compare new texts with those that the champion knows."),
    "dashboard": FlowCommand("flows.serve", "Start server, dashboard, worker and schedules."),
    "stop": FlowCommand("flows.serve", "Stop the server that runs for this project.", ("--stop",)),
}


def register(cli: typer.Typer) -> None:
    """Add each of `COMMANDS` to a command line. A flow is imported when its command runs."""
    for name, command in COMMANDS.items():
        cli.command(name, help=command.help, context_settings=PASS_ON)(_runner(name, command))


def _runner(name: str, command: FlowCommand) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        require(f"epigram {name}", "pipeline", *PACKAGES)
        app = _load(command.module).app
        try:
            app(args=[*command.arguments, *context.args], prog_name=f"epigram {name}", standalone_mode=False)
        except typer.TyperException as error:
            raise ParameterError(f"{error.format_message().rstrip('.')}: see epigram {name} --help") from None

    return run


def _load(module: str) -> Any:
    """Import a flow of the project in the current folder. Raises InputMissingError if the folder has no such flow."""
    path = Path(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        raise InputMissingError(f"{path} does not exist; run the command in the folder of a project")
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(module)
