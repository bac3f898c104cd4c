"""Tests that `--help` prints each help text as it is written in the code, with an example that can be run."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner

from epigram.cli import app as cli
from epigram.runner.workspace import revision_diff


def words(text: str) -> str:
    """Return `text` without whitespace, since the terminal width decides where lines break."""
    return "".join(text.split())


def help_of(app: Typer, *command: str) -> str:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert shown.exit_code == 0, shown.output
    return words(shown.output)


def check_texts(shown: str, command: Any) -> None:
    """Check that the help `shown` has the command's docstring and the text of each option."""
    assert words(inspect.getdoc(command.callback) or "?") in shown
    for parameter in command.params:
        assert words(getattr(parameter, "help", None) or "") in shown


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_outside_of_a_project_has_the_docstring_and_every_option(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands: Any = get_command(cli.cli)
    check_texts(help_of(cli.cli, name), commands.commands[name])


def test_help_of_a_module_s_own_command_has_the_docstring_and_every_option() -> None:
    check_texts(help_of(revision_diff.app), get_command(revision_diff.app))


@pytest.mark.parametrize("name", ["", *cli.COMMANDS])
def test_help_ends_with_an_example_whose_arguments_are_valid(name: str) -> None:
    """The arguments are parsed, and nothing runs."""
    commands: Any = get_command(cli.cli)
    command = commands.commands[name] if name else commands
    example = re.search(r"^Example: (epigram .*)\Z", inspect.getdoc(command.callback) or "", re.MULTILINE)
    assert example is not None
    program, used, *arguments = shlex.split(example[1].partition(" && ")[0])
    assert (program, used) == ("epigram", name or used)
    commands.commands[used].make_context(used, arguments)
    with pytest.raises(Exception, match="No such option"):
        commands.commands[used].make_context(used, [*arguments, "--no-such-option"])


def test_the_commands_of_flows_are_commands() -> None:
    assert set(cli.FLOW_COMMANDS) < cli.COMMANDS.keys()


def test_predict_s_help_shows_the_form_of_labelled_words() -> None:
    assert "[word|label]" in help_of(cli.cli, "predict")
