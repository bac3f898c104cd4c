"""Child process that runs `dvc repro`: its start, its output lines, and its outcome."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from epigram.core.display import printable
from epigram.core.outcome import MAX_DETAILS, OUTCOME_FILE, Outcome, read_outcome
from epigram.runner import child_process
from epigram.runner.child_process import ProcessPool

PROGRESS = "\x1e"  # prefix of a progress line, which replaces the previous line
KILLED = 128 + signal.SIGKILL  # in most cases, the kernel killed it when out of memory
REPRO_SCRIPT = Path(__file__).with_name("repro.py")


def run_repro(
    root: Path, *arguments: str, processes: ProcessPool, forward: Callable[[Iterable[str]], None]
) -> Outcome | None:
    """Run `dvc repro` with `arguments`, the last of which is the target, and return its outcome.

    `forward` gets the lines that it prints, as soon as they are printed. After `processes.stop`, the result is None.
    """
    last_lines: deque[str] = deque(maxlen=MAX_DETAILS)
    with tempfile.TemporaryDirectory(prefix="epigram-") as folder:  # of this try: no other outcome can be read
        file = Path(folder, "outcome.json")
        child = processes.start(lambda: _start_repro(root, *arguments, outcome_file=file))
        if child is None:
            return None
        with child:
            forward(read_lines(child, last_lines))
        processes.discard(child)
        return None if processes.stopped else outcome_of(arguments[-1], child.returncode, file, last_lines)


def _start_repro(root: Path, *arguments: str, outcome_file: Path) -> subprocess.Popen[str]:
    """Start a supervised `dvc repro` with `arguments`; it waits for DVC's lock and writes all output to one stream.

    The failed stage, or DVC's process, writes its outcome to `outcome_file`, which must not exist.
    """
    return child_process.start(
        [sys.executable, "-P", str(REPRO_SCRIPT), stage_path(root), *arguments],
        cwd=root,
        env=_environment(outcome_file),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def read_lines(child: subprocess.Popen[str], last_lines: deque[str]) -> Iterator[str]:
    """Yield each line as soon as it is printed; append it to `last_lines` unless it shows progress."""
    for raw in child.stdout or ():
        mark = PROGRESS if raw.startswith(PROGRESS) else ""
        line = f"{mark}{printable(raw.removeprefix(PROGRESS))}".rstrip()
        if line:
            if not mark:
                last_lines.append(line)
            yield line


def outcome_of(target: str, code: int, outcome_file: Path, last_lines: deque[str]) -> Outcome:
    """Return the outcome of a `dvc repro` that ended with `code`.

    A command that is not a stage of epigram, or that was killed, writes no outcome: then the details are the last lines
    that it printed. A file that contradicts the exit code is ignored: DVC was killed after the stage had finished.
    """
    found = read_outcome(outcome_file)
    if found is not None and bool(found.code) == bool(code):
        return replace(found, stage=found.stage or target)
    if code == 0:
        return Outcome(stage=target)
    return Outcome.failed(target, code, "\n".join([_describe(code), *last_lines]))


def _describe(code: int) -> str:
    if code == KILLED:
        return "killed, probably because the machine is out of memory; free memory and rerun"
    if code > 128:
        return f"terminated by signal {code - 128} ({signal.strsignal(code - 128)})"
    return f"exit code {code}"


def stage_path(root: Path) -> str:
    """Return the PYTHONPATH of the stages: the code of the workspace comes first."""
    return os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH", "")]))


def _environment(outcome_file: Path) -> dict[str, str]:
    """Return the environment of DVC's process: this interpreter, progress as marked lines."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "EPIGRAM_PROGRESS": "lines",
        "DVC_NO_ANALYTICS": "1",
        OUTCOME_FILE: str(outcome_file),
    }
