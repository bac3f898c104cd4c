"""Exit codes of errors, and processes that end while a library still works."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epigram.core.files import atomic_folder
from epigram.process import exits


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(errno.ENOSPC, "x", "a.npy"), 74, "No space left on device: a.npy: free disk space"),
        (RuntimeError("I/O error: full (os error 28)"), 74, "No space left on device: the disk: free disk space"),
        (shutil.Error([("a", "b", "[Errno 28] No space left on device")]), 74, "No space left on device: the disk"),
        (
            PermissionError(errno.EACCES, "x", "a", None, "b"),
            74,
            "Permission denied: b: check the read and write permissions",
        ),
        (FileNotFoundError(errno.ENOENT, "x", "a"), 66, "No such file or directory: a"),
        (OSError("something"), 74, "Input/output error: the disk"),
        (SystemError("error return without exception set"), 75, "out of memory; free memory"),
        (RuntimeError("can't start new thread"), 75, "out of memory; free memory"),
        (RuntimeError("could not create a primitive"), 75, "out of memory; free memory"),
        (RuntimeError("could not create a primitive descriptor for the LSTM"), 70, "internal error: RuntimeError:"),
        (ValueError("odd"), 70, "internal error: ValueError: odd; set EPIGRAM_DEBUG=1"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_the_exit_code_of_any_fault(error: BaseException, code: int, said: str) -> None:
    assert exits.exit_code(error) == code
    assert exits.message(error).startswith(said)


def program(*lines: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program of these lines to its end."""
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_nothing_follows_the_word_that_memory_ran_out() -> None:
    lines = (
        "import atexit",
        "from epigram.process.exits import handle_errors",
        "atexit.register(bytearray, 1 << 62)",  # an exit handler also runs out of memory
        "def main():",
        "    print('a line')",
        "    bytearray(1 << 62)",
        "handle_errors(main)()",
    )
    ended = program(*lines)
    said = "error: out of memory; free memory and rerun\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (75, "a line\n", said)


@pytest.mark.parametrize(
    ("act", "code"), [("pass", 0), ("raise errors.DataError('x')", 65), ("sys.exit(3)", 3), ("sys.exit()", 0)]
)
def test_a_program_that_is_through_ends_at_once(act: str, code: int) -> None:
    lines = (
        "import atexit, sys",
        "from epigram.core import errors",
        "from epigram.process import exits",
        "atexit.register(print, 'late')",  # like the shutdown of PyTorch, in which a signal may arrive
        "def main():",
        "    print('a line')",
        f"    {act}",
        "exits.run_and_exit(exits.handle_errors(main))",
    )
    ended = program(*lines)
    assert (ended.returncode, ended.stdout) == (code, "a line\n")


@pytest.mark.parametrize(("act", "code"), [("pass", 0), ("sys.exit(75)", 75), ("sys.exit(2)", 64), ("1 / 0", 70)])
def test_a_command_ends_with_what_libraries_do_at_an_exit(act: str, code: int) -> None:
    lines = (
        "import atexit, sys",
        "from epigram.core import errors",
        "from epigram.process import exits",
        "class Slow:",
        "    def __del__(self): print('taken apart')",
        "kept = Slow()",
        "def main():",
        "    atexit.register(print, 'told')",
        f"    {act}",
        "exits.run_typer(main)",
    )
    ended = program(*lines)
    assert (ended.returncode, ended.stdout) == (code, "told\n")


def test_what_a_killed_process_left_goes_with_the_next_try(tmp_path: Path) -> None:
    left, others = tmp_path / ".mlp.a1_b2c3d", tmp_path / ".mlp.deep.a1_b2c3d"
    for folder in (left, others):
        (folder / "half").mkdir(parents=True)
    with atomic_folder(tmp_path / "mlp"):
        assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mlp.deep.a1_b2c3d", "mlp"]
