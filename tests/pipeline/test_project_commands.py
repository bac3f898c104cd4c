"""Tests of `epigram run` and the other commands that run a flow of the project in the current folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from epigram.cli.flow_commands import COMMANDS
from tests.support.toy import Toy

EPIGRAM = "import sys; sys.argv[0] = 'epigram'; from epigram.cli import program; program()"


def epigram(toy: Toy, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the repository, as the installed program does."""
    command = [sys.executable, "-c", EPIGRAM, *arguments]
    return subprocess.run(command, cwd=toy.root, env=toy.env, capture_output=True, text=True, check=False, timeout=300)


def with_flows(toy: Toy) -> Toy:
    """Return the repository with the project's flows in its folder."""
    (toy.root / "flows").symlink_to(Path(__file__).parents[2] / "flows")
    return toy


def test_run_executes_the_stages_and_passes_options_on(toy: Toy) -> None:
    done = epigram(with_flows(toy), "run", "--name", "mine", "--max-parallel", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 of 6 stages executed")
    assert (toy.root / "runs" / "mine" / "summary.json").is_file()
    assert sorted(toy.journal()) == sorted(["gather", "cut@token", "cut@wordpiece", "fit@mlp", "fit@bert", "judge"])


def test_a_failed_stage_gives_its_exit_code(toy: Toy) -> None:
    toy.tell({"gather": {"codes": [65, 65, 65]}})
    done = epigram(with_flows(toy), "run")
    assert (done.returncode, done.stdout) == (65, "")
    assert "error: gather failed (exit 65)" in done.stderr


def test_stop_is_the_dashboard_with_its_option(toy: Toy) -> None:
    done = epigram(with_flows(toy), "stop")
    assert (done.returncode, done.stdout) == (0, "no service is running for this repository\n"), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_outside_of_a_project_a_command_names_what_is_missing(name: str, toy: Toy) -> None:
    done = epigram(toy, name)
    file = COMMANDS[name].module.replace(".", "/")
    assert (done.returncode, done.stderr) == (
        66,
        f"error: {file}.py does not exist; run the command in the folder of a project\n",
    )


def test_help_and_wrong_options_are_those_of_the_flow(toy: Toy) -> None:
    with_flows(toy)
    assert "--max-parallel" in epigram(toy, "run", "--help").stdout
    done = epigram(toy, "run", "--sytems", "x")
    assert done.returncode == 64
    assert done.stderr.startswith("error: No such option: --sytems") and "see epigram run --help" in done.stderr
