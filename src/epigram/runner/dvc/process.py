"""Child processes that run `dvc repro`: their start, their output lines, and the outcomes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO

from epigram.core.errors import TryAgainError
from epigram.process.display import printable
from epigram.process.outcome import MAX_DETAILS, Outcome, read_outcome
from epigram.runner import child_process
from epigram.runner.dvc.silence import SilenceLimit

PROGRESS = "\x1e"  # prefix of a progress line, which replaces the previous line
END = "\x1d"  # prefix of the line after the output of a stage if the process waits for the next one
KILLED = 128 + signal.SIGKILL  # killed by the kernel, in most cases when out of memory
NO_CHANGE: Mapping[str, str] = MappingProxyType({})
REPRO_SCRIPT = Path(__file__).with_name("repro.py")


class ReproProcess:
    """Supervised process that runs one `dvc repro` after the other; it waits for the next one after a success only."""

    def __init__(self, child: subprocess.Popen[str], requests: IO[str]) -> None:
        self.child, self._requests = child, requests
        self.waits = False  # whether the last `dvc repro` succeeded and the process waits for the next one
        self._end = ""

    def request(self, arguments: Sequence[str], outcome_file: Path, environment: Mapping[str, str]) -> None:
        """Let the process run `dvc repro` with `arguments`; the outcome is written to `outcome_file`.

        The variables of `environment` replace the process's own.
        """
        self.waits, self._end = False, f"{END}{outcome_file}"
        with suppress(BrokenPipeError):  # it was killed: its output ends, and its exit code tells the reason
            asked = {"arguments": arguments, "outcome": str(outcome_file), "environment": dict(environment)}
            self._requests.write(json.dumps(asked) + "\n")
            self._requests.flush()

    def output(self) -> Iterator[str]:
        """Yield each line that the `dvc repro` prints, as soon as it is printed."""
        for line in self.child.stdout or ():
            if line.rstrip("\n") == self._end:
                self.waits = True
                return
            yield line

    def close(self) -> int:
        """Wait for the end of the process, which has no further request, and return its exit code."""
        with suppress(BrokenPipeError):
            self._requests.close()
        with self.child:
            pass
        return self.child.returncode


class ReproProcesses:
    """Processes that run `dvc repro` in the workspace `root`, terminated together. Thread-safe.

    The import of DVC takes half of the time of a `dvc repro`, without the command of its stage. So a process whose
    stage has succeeded, and has left no other process running, is used for the next stage. A stage that prints nothing
    for `max_silence` seconds is terminated, as by SIGTERM; None: never.
    """

    def __init__(self, root: Path, max_silence: float | None = None) -> None:
        self.root, self.max_silence = root, max_silence
        self._pool, self._idle, self._lock = child_process.ProcessPool(), list[ReproProcess](), threading.Lock()

    def run(
        self,
        *arguments: str,
        forward: Callable[[Iterable[str]], None],
        environment: Mapping[str, str] = NO_CHANGE,
    ) -> Outcome | None:
        """Run `dvc repro` with `arguments`, the last of which is the target, and return its outcome.

        `forward` gets the lines that it prints, as soon as they are printed. `environment` has further variables, equal
        in every call. After `stop`, the result is None.
        """
        last_lines: deque[str] = deque(maxlen=MAX_DETAILS)
        with tempfile.TemporaryDirectory(prefix="epigram-") as folder:  # new for this try: no other outcome can be read
            file = Path(folder, "outcome.json")
            process = self._idle_process() or self._new_process()
            if process is None:
                return None
            limit = SilenceLimit(self.max_silence, partial(child_process.terminate, process.child))
            try:
                process.request(arguments, file, environment)
                with limit:
                    forward(read_lines(limit.heard(process.output()), last_lines))
            finally:
                with self._lock:
                    if kept := process.waits and not self._pool.stopped:
                        self._idle.append(process)
                code = 0 if kept else self._close(process)
            if limit.exceeded and code and not self._pool.stopped:
                return _silent(arguments[-1], self.max_silence)
            return None if self._pool.stopped else outcome_of(arguments[-1], code, file, last_lines)

    def stop(self) -> None:
        """Terminate all processes and start no new ones."""
        self._pool.stop()
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def _idle_process(self) -> ReproProcess | None:
        """Return a process that waits for a stage, or None; forget processes that were killed meanwhile."""
        with self._lock:
            while self._idle and not self._pool.stopped:
                process = self._idle.pop()
                if process.child.poll() is None:
                    return process
                self._close(process)
        return None

    def _new_process(self) -> ReproProcess | None:
        reading, writing = os.pipe()
        requests = os.fdopen(writing, "w", encoding="utf-8")
        try:
            child = self._pool.start(lambda: _start_repro(self.root, reading))
        finally:
            os.close(reading)
        if child is None:
            requests.close()
            return None
        return ReproProcess(child, requests)

    def _close(self, process: ReproProcess) -> int:
        code = process.close()
        self._pool.discard(process.child)
        return code


def _start_repro(root: Path, requests: int) -> subprocess.Popen[str]:
    """Start a supervised process that reads its requests from the file descriptor `requests`.

    It waits for DVC's lock, uses this interpreter, and writes all output to one stream. A failed stage, or DVC's
    process, writes its outcome to the file of the request, which must not exist.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "EPIGRAM_PROGRESS": "lines",
        "DVC_NO_ANALYTICS": "1",
    }
    return child_process.start(
        [sys.executable, "-P", str(REPRO_SCRIPT), stage_path(root), str(requests)],
        cwd=root,
        env=environment,
        pass_fds=(requests,),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def read_lines(lines: Iterable[str], last_lines: deque[str]) -> Iterator[str]:
    """Yield each of the `lines` that is not empty; append it to `last_lines` unless it shows progress."""
    for raw in lines:
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
        return replace(found, stage=found.stage or target, output=tuple(last_lines) if code else ())
    if code == 0:
        return Outcome(stage=target)
    summary = f"exit code {code}"
    if code == KILLED:
        summary = "killed, probably because the machine is out of memory; free memory and rerun"
    elif code > 128:
        summary = f"terminated by signal {code - 128} ({signal.strsignal(code - 128)})"
    return Outcome.failed(target, code, "\n".join([summary, *last_lines]))


def _silent(target: str, seconds: float | None) -> Outcome:
    reason = (
        f"ended because it printed nothing for {seconds:g} s; it continues from its checkpoint when it is run again"
    )
    return Outcome.failed(target, TryAgainError.code, reason)


def stage_path(root: Path) -> str:
    """Return the PYTHONPATH of the stages: the code of the workspace comes first."""
    return os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH", "")]))
