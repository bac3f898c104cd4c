"""Tests of closed standard streams and of output encodings, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.linear_models import TRAIN, svm

PROGRAM = [sys.executable, "-c", "from epigram.cli import program; program()"]
NOTE = "note: the output is discarded, because stdout is closed\n"


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


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [
        (">&-", False, NOTE),
        ("2>&-", True, ""),
        ("<&-", True, ""),
        ("<&- >&-", False, NOTE),
        ("<&- >&- 2>&-", False, ""),
    ],
)
def test_a_closed_stream_is_no_error(closed: str, out: bool, err: str, model: Path) -> None:
    assert run([*PROGRAM, "predict", str(model), "饭好吃"], closed) == (
        0,
        "food\t0.942\t饭好吃\n".encode() if out else b"",
        err.encode(),
    )


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-"])
def test_an_error_has_its_exit_code_with_a_closed_stream(closed: str, tmp_path: Path) -> None:
    code, out, err = run([*PROGRAM, "predict", str(tmp_path / "absent"), "x"], closed)
    assert (code, out) == (66, b"")
    assert err.count(b"error: ") == (closed != "2>&-") and b"Traceback" not in err


def test_texts_from_a_closed_stdin_are_none(model: Path) -> None:
    code, out, err = run([*PROGRAM, "predict", str(model)], "<&-")
    assert (code, out) == (0, b"") and b"Traceback" not in err


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
    [
        ("gbk", "饭好吃\\ud83d\\udc4d"),
        ("ascii", "\\u996d\\u597d\\u5403\\ud83d\\udc4d"),
        ("latin-1", "\\u996d\\u597d\\u5403\\ud83d\\udc4d"),
        ("utf-8", "饭好吃👍"),
    ],
)
def test_characters_that_the_output_lacks_are_escaped(encoding: str, shown: str, model: Path) -> None:
    code, out, _ = run([*PROGRAM, "predict", str(model), "饭好吃👍"], PYTHONIOENCODING=encoding)
    assert (code, out.decode(encoding).rstrip().partition("\t")[2].partition("\t")[2]) == (0, shown)
    code, out, _ = run([*PROGRAM, "predict", "--json", str(model), "饭好吃👍"], PYTHONIOENCODING=encoding)
    assert code == 0 and json.loads(out.decode(encoding))["text"] == "饭好吃👍"


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1"])
@pytest.mark.parametrize("arguments", [["systems"], ["--help"], ["predict", "没有/👍", "x"]])
def test_every_command_prints_in_every_encoding(encoding: str, arguments: list[str]) -> None:
    code, out, err = run([*PROGRAM, *arguments], PYTHONIOENCODING=encoding)
    assert code == (66 if arguments[0] == "predict" else 0)
    assert (out + err).decode(encoding) and b"internal error" not in err
