"""Tests that `--help` prints each help text as it is written in the code."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner

from epigram import cli
from epigram.cli.flow_commands import COMMANDS as COMMANDS_OF_FLOWS
from epigram.runner.workspace import revision_diff
from flows import drift, pipeline, retrain, serve, sweep

APPS = {
    "epigram": cli.cli,
    **{module.__name__: module.app for module in (drift, pipeline, retrain, serve, sweep, revision_diff)},
}
COMMANDS = [
    (name, command.name or command.callback.__name__)
    for name, app in APPS.items()
    for command in app.registered_commands
    if command.callback and command.name not in COMMANDS_OF_FLOWS  # they have the help of their flow, listed above
]


def words(text: str) -> str:
    """Return `text` without whitespace, since the terminal width decides where lines break."""
    return "".join(text.split())


def help_of(app: Typer, *command: str) -> str:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert shown.exit_code == 0, shown.output
    return words(shown.output)


def command_of(app: Typer, name: str) -> Any:
    command: Any = get_command(app)
    return command.commands[name] if hasattr(command, "commands") else command


@pytest.mark.parametrize(("app", "name"), COMMANDS)
def test_a_command_s_help_has_its_docstring_and_the_text_of_each_option(app: str, name: str) -> None:
    several = len(APPS[app].registered_commands) > 1
    shown, command = help_of(APPS[app], *([name] if several else [])), command_of(APPS[app], name)
    assert words(inspect.getdoc(command.callback) or "?") in shown
    for parameter in command.params:
        assert words(getattr(parameter, "help", None) or "") in shown


def test_predict_s_help_shows_the_form_of_labelled_words() -> None:
    assert "[word|label]" in help_of(cli.cli, "predict")
