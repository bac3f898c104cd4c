"""Tests of exit codes and of signals that are deferred."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epigram.core import errors
from epigram.core.errors import DiskError, ParameterError, SourceUnavailableError, TryAgainError
from epigram.process import exits
from epigram.process.exits import exit_code, run_typer
from epigram.process.signals import Terminated


def test_only_an_absent_source_and_an_interruption_are_worth_another_try() -> None:
    tried = {SourceUnavailableError.code, TryAgainError.code, exit_code(Terminated())}
    assert tried == {69, 75} == errors.RETRYABLE
    assert exit_code(KeyboardInterrupt()) == 130
    assert DiskError.code not in errors.RETRYABLE


@pytest.mark.parametrize(("raised", "code"), [(2, 64), (65, 65), (0, 0), ("no", 70)])
def test_a_command_line_that_cannot_be_read_is_a_bad_parameter(
    raised: Any, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Callable[[], None]] = []
    left: list[int] = []
    monkeypatch.setattr(exits.atexit, "register", at_exit.append)
    monkeypatch.setattr(exits, "exit_now", left.append)

    def command() -> None:
        raise SystemExit(raised)

    run_typer(command)
    at_exit[0]()
    assert left == [code]


@pytest.mark.parametrize("wrong", ["x" * 300, ".", "file/below", "loop"])
def test_a_path_that_cannot_be_opened_is_no_fault_of_the_disk(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError) as caught:
        (tmp_path / wrong).open("w")
    assert exit_code(caught.value) == ParameterError.code


@pytest.mark.parametrize(("raised", "code"), [(Terminated, 75), (KeyboardInterrupt, 130), (ValueError, 70)])
def test_a_signal_while_a_class_is_created_is_a_signal(raised: type[BaseException], code: int) -> None:
    class Interrupted:
        def __set_name__(self, owner: type, name: str) -> None:
            raise raised

    with pytest.raises((RuntimeError, raised)) as caught:  # Python 3.12 and later do not wrap it
        type("Holder", (), {"held": Interrupted()})
    assert exit_code(caught.value) == code


PROGRAM = """
import os, sys
from epigram.process.exits import handle_errors
@handle_errors
def main():
    if sys.argv[1] == "print":
        for number in range(100_000):
            print(number)
    else:  # another pipe, whose reader has ended
        read, write = os.pipe()
        os.close(read)
        os.write(write, b"x")
main()
"""


@pytest.mark.parametrize(
    ("pipe", "code", "said"),
    [("print", 128 + signal.SIGPIPE, ""), ("other", 74, "error: Broken pipe: the disk\n")],
)
def test_output_that_nobody_reads_ends_a_command_without_a_message(pipe: str, code: int, said: str) -> None:
    command = [sys.executable, "-c", PROGRAM, pipe]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        if pipe == "print":
            assert child.stdout.readline() == "0\n"
            child.stdout.close()
        assert child.stderr.read() == said
    assert child.returncode == code
