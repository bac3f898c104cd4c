"""Tests of `epigram run` and the other commands that run a flow of the project in the current folder."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from epigram.cli.app import FLOW_COMMANDS
from tests.support import bad_input
from tests.support.toy import Toy

EPIGRAM = ("-c", "import sys; sys.argv[0] = 'epigram'; from epigram.cli import program; program()")
REQUIRED = {"sweep": ("--over", "seeds=[0],[1]"), "table": ("one",)}
MODULES = {"dashboard": "pipeline", "stop": "pipeline", "run": "pipeline"}


def epigram(toy: Toy, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the repository, as the installed program does."""
    command = [sys.executable, *EPIGRAM, *arguments]
    return subprocess.run(command, cwd=toy.root, env=toy.env, capture_output=True, text=True, check=False, timeout=300)


def test_run_executes_the_stages_and_passes_options_on(toy: Toy) -> None:
    done = epigram(toy, "run", "--name", "mine", "--max-parallel", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 of 6 stages executed")
    assert (toy.root / "runs" / "mine" / "summary.json").is_file()
    assert sorted(toy.journal()) == sorted(["gather", "cut@token", "cut@wordpiece", "fit@mlp", "fit@bert", "judge"])


@pytest.mark.extended
def test_a_failed_stage_gives_its_exit_code(toy: Toy) -> None:
    toy.tell({"gather": {"codes": [65, 65, 65]}})
    done = epigram(toy, "run", "--name", "mine")
    assert (done.returncode, done.stdout) == (65, "")
    assert "error: gather failed (exit 65)" in done.stderr
    assert (toy.root / "runs" / "mine" / "summary.json").is_file()


@pytest.mark.extended
def test_run_uses_the_flow_of_the_project(toy: Toy) -> None:
    flow = toy.root / "flows" / "pipeline.py"
    changed = '    raise ValueError("changed by the user")\n    with open_run('
    flow.write_text(flow.read_text().replace("    with open_run(", changed))
    done = epigram(toy, "run")
    assert (done.returncode, "changed by the user" in done.stderr) == (70, True)
    assert toy.journal() == []


def test_stop_without_a_service_says_so(toy: Toy) -> None:
    done = epigram(toy, "stop")
    assert (done.returncode, done.stdout) == (0, "no service is running for this repository\n"), done.stderr


@pytest.mark.parametrize("name", FLOW_COMMANDS)
def test_outside_of_a_project_a_command_names_what_is_missing(name: str, toy: Toy) -> None:
    shutil.rmtree(toy.root / "flows")
    said = f"flows/{MODULES.get(name, name)}.py does not exist; run the command in the folder of a project"
    bad_input.epigram(toy.root, name, *REQUIRED.get(name, ())).refused(66, said)


def test_a_wrong_option_is_refused(toy: Toy) -> None:
    done = epigram(toy, "run", "--sytems", "x")
    assert done.returncode == 64
    assert done.stderr.startswith("error: No such option: --sytems") and "see epigram run --help" in done.stderr
