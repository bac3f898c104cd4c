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


def test_the_list_of_commands_has_a_sentence_of_one_line_for_each() -> None:
    shown = CliRunner().invoke(cli.cli, ["--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).output
    listed = re.findall(r"^  ([a-z]+)  +([A-Z].*\.)$", shown, re.MULTILINE)
    assert [name for name, _ in listed] == list(cli.COMMANDS) and max(map(len, shown.splitlines())) <= 80
    assert [title for title in cli.GROUPS if f"\n{title}:\n" in shown] == list(cli.GROUPS)


@pytest.mark.parametrize(("width", "has_papers"), [(80, False), (140, True)])
def test_the_list_of_systems_fits_the_terminal(
    width: int, has_papers: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    cli.app(["systems"])
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)  # without colours
    assert max(map(len, shown.splitlines())) <= width
    assert ("Joulin et al." in shown) == has_papers
    assert "a vocabulary of 5,000 tokens, 2 classes and a maximum length of 128 tokens" in " ".join(shown.split())


def test_the_list_of_systems_is_a_table_for_other_programs_in_a_pipe() -> None:
    header, *rows = CliRunner().invoke(cli.cli, ["systems"]).output.splitlines()
    assert header.split("\t")[:2] == ["system", "task"]
    assert {len(row.split("\t")) for row in rows} == {len(header.split("\t"))} and len(rows) > 20


def test_the_commands_of_flows_are_commands() -> None:
    assert set(cli.FLOW_COMMANDS) < cli.COMMANDS.keys()


def test_predict_s_help_shows_the_form_of_labelled_words() -> None:
    assert "[word|label]" in help_of(cli.cli, "predict")
