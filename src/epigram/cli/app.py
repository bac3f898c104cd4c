"""The subcommands of `epigram`. Each one is the `main` of a module here, with its options and its help text.

A subcommand imports its dependencies when it runs, so that `epigram predict` loads neither Prefect nor DVC.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import epigram
from epigram.cli.models import (
    encoders,
    evaluate,
    explain,
    export,
    fit,
    label,
    predict,
    push,
    serve,
    sign,
    suggest,
    systems,
    verify,
)
from epigram.cli.projects import add, dashboard, doctor, init, repair, stop
from epigram.cli.runs import drift, retrain, run, sweep, table
from epigram.core.errors import ParameterError
from epigram.process.display import echo
from epigram.process.exits import handle_errors, run_and_exit, run_typer
from epigram.process.signals import end_on_signals
from epigram.process.startup import limit_library_threads

GROUPS: dict[str, dict[str, tuple[Callable[..., None], str]]] = {
    "A model": {
        "fit": (fit.main, "Train the best model for labelled texts in a given time."),
        "predict": (predict.main, "Predict the labels of texts, or of a table."),
        "evaluate": (evaluate.main, "Score a model on a table with labels."),
        "explain": (explain.main, "Show which words of a text speak for its label."),
        "serve": (serve.main, "Answer over HTTP."),
        "label": (label.main, "Label texts without labels, by the names of the labels."),
        "suggest": (suggest.main, "Choose the texts that are most worth labelling next."),
        "export": (export.main, "Write a model as an ONNX graph."),
        "push": (push.main, "Upload a model to the Hugging Face hub."),
        "verify": (verify.main, "Check that the files of a model are unchanged."),
        "sign": (sign.main, "Sign the files of a model."),
        "encoders": (encoders.main, "List the pretrained encoders, or install one."),
    },
    "A project": {
        "init": (init.main, "Create a project, with git and DVC."),
        "doctor": (doctor.main, "Check the installation, the machine and the project."),
        "add": (add.main, "Make your own file a data set of the project."),
        "systems": (systems.main, "List the systems that a project can train."),
        "run": (run.main, "Run the pipeline, and compare the systems."),
        "sweep": (sweep.main, "Run the pipeline for every combination of settings."),
        "table": (table.main, "Measure a printed table of a paper."),
    },
    "A model that stays good": {
        "retrain": (retrain.main, "Train on new rows; a better model becomes the champion."),
        "drift": (drift.main, "Compare new texts with the texts that the champion knows."),
        "dashboard": (dashboard.main, "Start the dashboard with its schedules."),
        "stop": (stop.main, "Stop the dashboard."),
        "repair": (repair.main, "Check the stored files of DVC, and remove damaged ones."),
    },
}
COMMANDS = {name: main for group in GROUPS.values() for name, (main, _) in group.items()}
FLOW_COMMANDS = ("run", "retrain", "drift", "sweep", "table", "dashboard", "stop")  # need flows/ in the current folder


class GroupedHelp(TyperGroup):
    """Command group whose help lists the commands by GROUPS."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each group with its commands, a sentence for each."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, about) for name, (_, about) in group.items()])


# Help texts are plain, because Rich markup would read [word|label] as a tag and drop it.
cli = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None, cls=GroupedHelp)
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
