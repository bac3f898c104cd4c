"""Tests of signals that are deferred, and of signals that end the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from epigram.process.signals import Terminated, defer_signals


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_waits_for_the_end_of_the_block_and_is_raised_there(
    number: signal.Signals, kind: type[BaseException]
) -> None:
    seen = []
    with pytest.raises(kind), defer_signals() as waits:
        seen.append(waits())
        os.kill(os.getpid(), number)
        seen.append(waits())
    assert seen == [0, number]


# A signal that arrives in a destructor: Python prints a traceback for an exception raised there, and goes on.
DESTRUCTOR = """
import os, signal
class Sender:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
signal.signal(signal.SIGINT, signal.{before})
"""


def ended(script: str, **values: str) -> tuple[int, str]:
    command = [sys.executable, "-c", (DESTRUCTOR + script).format(**values)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [("SIGINT", 130, "interrupted"), ("SIGTERM", 75, "stopped by SIGTERM; run it again to resume")],
)
def test_a_signal_in_a_destructor_ends_the_process(name: str, code: int, text: str) -> None:
    script = "from epigram.process.signals import end_on_signals\nwith end_on_signals():\n    Sender()\n"
    assert ended(script, name=name, before="default_int_handler") == (code, f"error: {text}\n")


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [("SIGINT", 130, "interrupted"), ("SIGTERM", 75, "stopped by SIGTERM; run it again to resume")],
)
def test_a_signal_in_a_destructor_interrupts_a_command(name: str, code: int, text: str) -> None:
    script = """
import time
from epigram.process.exits import handle_errors
def main():
    Sender()
    for _ in range(100):
        time.sleep(0.1)
handle_errors(main)()
"""
    assert ended(script, name=name, before="default_int_handler") == (code, f"error: {text}\n")


def test_an_ignored_signal_stays_ignored() -> None:
    script = "from epigram.process.signals import end_on_signals\nwith end_on_signals():\n    Sender()\n"
    assert ended(script, name="SIGINT", before="SIG_IGN") == (0, "")


@pytest.mark.parametrize("module", ["typer", "prefect"])
def test_ctrl_c_during_an_import_ends_the_command(module: str) -> None:
    """Typer is imported by the command line, and Prefect before the flow starts."""
    script = """
import sys
from importlib.abc import MetaPathFinder
class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            Sender()
sys.meta_path.insert(0, Finder())
sys.argv = ["epigram", "run", "--name", "../no"]
from epigram.cli import program
program()
"""
    code, said = ended(script, name="SIGINT", before="default_int_handler", module=module)
    assert (code, said.count("error: interrupted"), said.count("Traceback")) == (130, 1, 0), said
