"""The subcommands of `epigram`. Each one is the `main` of a module here, with its options and its help text.

A subcommand imports its dependencies when it runs, so that `epigram predict` loads neither Prefect nor DVC.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

import epigram
from epigram.cli.models import encoders, explain, export, fit, predict, push, serve, sign, suggest, systems, verify
from epigram.cli.projects import add, dashboard, doctor, init, repair, stop
from epigram.cli.runs import drift, retrain, run, sweep, table
from epigram.core.errors import ParameterError
from epigram.process.display import echo
from epigram.process.exits import handle_errors, run_and_exit, run_typer
from epigram.process.signals import end_on_signals
from epigram.process.startup import limit_library_threads

COMMANDS: dict[str, Callable[..., None]] = {
    "fit": fit.main,
    "init": init.main,
    "doctor": doctor.main,
    "run": run.main,
    "predict": predict.main,
    "explain": explain.main,
    "serve": serve.main,
    "suggest": suggest.main,
    "export": export.main,
    "verify": verify.main,
    "sign": sign.main,
    "push": push.main,
    "systems": systems.main,
    "encoders": encoders.main,
    "add": add.main,
    "retrain": retrain.main,
    "drift": drift.main,
    "sweep": sweep.main,
    "table": table.main,
    "dashboard": dashboard.main,
    "stop": stop.main,
    "repair": repair.main,
}
FLOW_COMMANDS = ("run", "retrain", "drift", "sweep", "table", "dashboard", "stop")  # need flows/ in the current folder

# Help texts are plain, because Rich markup would read [word|label] as a tag and drop it.
cli = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
for _name, _main in COMMANDS.items():
    # until its flow starts, a flow's command has nothing to clean up
    cli.command(_name)(handle_errors(end_on_signals()(_main) if _name in FLOW_COMMANDS else _main))


@cli.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train, compare and use short-text classifiers.

    Example: epigram predict runs/latest/model "a text"
    """
    if version:
        echo(f"epigram {epigram.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        echo(context.get_help())


@handle_errors
def app(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error of the user prints one line and sets its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = cli(args=words, prog_name="epigram", standalone_mode=False)
    except typer.TyperException as error:
        command = f" {words[0]}" if words[0] in COMMANDS else ""
        raise ParameterError(f"{error.format_message().rstrip('.')}: see epigram{command} --help") from None
    if code == 130:  # typer's exit code for Ctrl-C
        raise KeyboardInterrupt


def start() -> None:
    """Run `app` with the arguments of the command line, and end the process.

    A flow's command waits for Prefect's exit handlers; every other command skips all exit handlers, which take half a
    second.
    """
    limit_library_threads()
    end = run_typer if sys.argv[1:2] and sys.argv[1] in FLOW_COMMANDS else run_and_exit
    end(app)
