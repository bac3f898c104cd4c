"""Tests of closed standard streams and of output encodings, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.linear_models import TRAIN, svm

PROGRAM = [sys.executable, "-c", "from epigram.cli import program; program()"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return svm(tmp_path_factory.mktemp("model"), "zh", TRAIN["zh"])


def run(command: list[str], closed: str = "", **environment: str) -> tuple[int, bytes, bytes]:
    """Run the command in a shell that closes some streams; return the exit code and both outputs."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command],
        env={**os.environ, **environment},
        input=b"",
        capture_output=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("closed", "out"), [(">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)])
def test_a_closed_stream_is_no_error(closed: str, out: bool, model: Path) -> None:
    expected = "food\t0.942\t饭好吃\n".encode() if out else b""
    assert run([*PROGRAM, "predict", str(model), "饭好吃"], closed) == (0, expected, b"")


def test_a_file_never_gets_the_descriptor_of_a_closed_stream(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom epigram.process.startup import open_streams\nopen_streams()\n"
        "with open(sys.argv[1], 'w', encoding='utf-8') as file:\n"
        "    file.write('rows'); os.write(1, b'a library'); os.write(2, b'a library')\n"
    )
    assert run([sys.executable, "-c", code, str(tmp_path / "file")], "<&- >&- 2>&-")[0] == 0
    assert (tmp_path / "file").read_text(encoding="utf-8") == "rows"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("gbk", "饭好吃\\U0001f44d"), ("ascii", "\\u996d\\u597d\\u5403\\U0001f44d"), ("utf-8", "饭好吃👍")],
)
def test_characters_that_the_output_lacks_are_escaped(encoding: str, shown: str, model: Path) -> None:
    code, out, _ = run([*PROGRAM, "predict", str(model), "饭好吃👍"], PYTHONIOENCODING=encoding)
    assert (code, out.decode(encoding).rstrip().partition("\t")[2].partition("\t")[2]) == (0, shown)


def test_a_message_is_printed_in_every_encoding() -> None:
    code, _, err = run([*PROGRAM, "predict", "没有/👍", "x"], PYTHONIOENCODING="ascii")
    assert code == 66 and err.startswith(b"error: ")
