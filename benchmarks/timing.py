"""Measuring: alternating runs, work in separate processes, wall time and peak memory of commands."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

from benchmarks.rows import Measured

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3
Run = Callable[[], Mapping[str, float]]  # one whole run; returns its measurements by unit


class SkippedError(Exception):
    """Raised if a family cannot run here; the message says what it needs."""


@dataclass(frozen=True)
class Plan:
    """Where to work and how much: `tiny` makes one run of a hundredth of the work, to check that a benchmark works."""

    scratch: Path
    tiny: bool = False

    def size(self, full: int) -> int:
        """Return how much of the full work to do."""
        return max(1, full // 100) if self.tiny else full

    def few(self, full: Sequence[T]) -> Sequence[T]:
        """Return the peers, systems or sizes to measure: the first one in a tiny run, otherwise all."""
        return full[:1] if self.tiny else full

    def apart(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call `function` in a new process; a tiny run, whose figures do not count, calls it in this one."""
        return function(*arguments) if self.tiny else apart(function, *arguments)

    def alternate(self, *works: Run, rounds: int = ROUNDS) -> list[dict[str, Measured]]:
        """Run `works` in turn, `rounds` times each, and return the measurements of each by unit."""
        seen: list[list[Mapping[str, float]]] = [[] for _ in works]
        for _ in range(1 if self.tiny else rounds):
            for work, values in zip(works, seen, strict=True):
                values.append(work())
        return [{unit: Measured(tuple(v[unit] for v in values)) for unit in values[0]} for values in seen]


def apart(function: Callable[..., T], *arguments: Any) -> T:
    """Call `function` in a new process, so that its memory, threads and imports do not affect this one."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def environment(code: Path = ROOT) -> dict[str, str]:
    """Return the environment of a process that runs the code in `code`, with this interpreter's programs first.

    The Prefect server of a process has its database in the folder of the process.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    packages = os.pathsep.join(filter(None, [str(code / "src"), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if name != "PREFECT_HOME"}
    return {**kept, "PYTHONPATH": packages, "PATH": path, "DVC_NO_ANALYTICS": "1"}


def process(
    command: Sequence[str], folder: Path, code: Path = ROOT, changes: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Run a Python command in `folder` on the code in `code`; return its wall time (s) and its peak memory (GB).

    `changes` override the environment. The operating system reports at least the peak memory of the calling process, so
    keep that process small if memory matters. Raises RuntimeError if the command fails.
    """
    with TemporaryFile() as output:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**environment(code), **(changes or {})},
            stdout=output,
            stderr=output,
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)}: exit {child.returncode}\n{output.read().decode()}")
    return {"s": seconds, "GB": usage.ru_maxrss * 1024 / 1e9}
