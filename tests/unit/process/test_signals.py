"""Exit codes, the outcome file of a stage, and signals that are deferred or end the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epigram.core import errors
from epigram.core.errors import DataError, DiskError, ParameterError, SourceUnavailableError, TryAgainError
from epigram.process import exits
from epigram.process.exits import exit_code, handle_errors, run_typer
from epigram.process.outcome import OUTCOME_FILE, Outcome, read_outcome
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


# The signal arrives while a class is created, which wraps the exception, and in C code that raises another one.
REPLACED = {
    "a class": """
class Interrupted:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.{name})
def main():
    type("Holder", (), dict(held=Interrupted()))
""",
    "an import": """
def main():
    try:
        os.kill(os.getpid(), signal.{name})
    except KeyboardInterrupt:
        pass
    raise ImportError("could not import module datetime")
""",
}


@pytest.mark.parametrize("where", REPLACED)
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 75)])
def test_a_signal_whose_exception_becomes_another_is_still_a_signal(where: str, name: str, code: int) -> None:
    script = REPLACED[where] + "from epigram.process.exits import handle_errors\nhandle_errors(main)()\n"
    assert ended(script, name=name, before="default_int_handler")[0] == code


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


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(OUTCOME_FILE, str(tmp_path / "outcome.json"))
    monkeypatch.setenv("DVC_STAGE", "train@mlp")
    return tmp_path / "outcome.json"


def fail() -> None:
    raise DataError("2 rows have no \x1b[31mtext\nrow 3\nrow 7")


def test_a_failed_program_writes_its_outcome(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="65"):
        handle_errors(fail)()
    expected = Outcome(
        stage="train@mlp", code=65, summary="2 rows have no text", details=("row 3", "row 7"), state="Failed"
    )
    assert read_outcome(file) == expected
    assert capsys.readouterr().err == "error: 2 rows have no text\nrow 3\nrow 7\n"
    assert list(file.parent.iterdir()) == [file]


def test_without_the_variable_only_the_line_is_printed(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(OUTCOME_FILE)
    with pytest.raises(SystemExit, match="65"):
        handle_errors(fail)()
    assert capsys.readouterr().err.startswith("error: 2 rows have no text\n")
    assert list(file.parent.iterdir()) == []


def test_an_outcome_that_cannot_be_written_changes_no_exit_code(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OUTCOME_FILE, str(file / "in" / "no" / "folder"))
    with pytest.raises(SystemExit, match="65"):
        handle_errors(fail)()


def test_30_details_are_kept_and_the_others_counted() -> None:
    lines = [f"row {number}" for number in range(33)]
    assert Outcome.failed("fit", 65, "\n".join(["wrong", *lines[:30]])).details == tuple(lines[:30])
    assert Outcome.failed("fit", 65, "\n".join(["wrong", *lines])).details == (*lines[:30], "… and 3 more lines")


@pytest.mark.parametrize("content", [None, b"", b"[1]", b'{"stage": "fit", "code": "many"}', b'{"code": 65}', b"\xff"])
def test_a_missing_or_damaged_file_is_no_outcome(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)
    assert read_outcome(file) is None
