"""What every benchmark shares: whole runs in turn with the peer's, their median and range, and a row of the table."""

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
from statistics import median
from tempfile import TemporaryFile
from typing import Any, Literal, TypeVar

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[1]
Run = Callable[[], Mapping[str, float]]  # one whole run: what it measured, by unit


@dataclass(frozen=True)
class Measured:
    """One quantity over all runs."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The run in the middle."""
        return median(self.runs)


@dataclass(frozen=True)
class Reach:
    """What a row should reach: a bound on our own value, or on its ratio to the peer's."""

    sign: Literal["≤", "≥"]
    bound: float
    of: Literal["ours", "ratio"] = "ours"

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}{' ×' if self.of == 'ratio' else ''}"


class SkippedError(Exception):
    """A family cannot run here; the message says what it needs."""


@dataclass(frozen=True)
class Row:
    """A line of the table; `ratio` is ours over the peer's, so the unit says which way is better.

    `limit` is our share of what the machine can do at all, where it is known.
    """

    work: str
    unit: str
    ours: Measured
    peer: Measured | None = None
    reach: Reach | None = None
    limit: float | None = None

    @property
    def ratio(self) -> float | None:
        """Median over median; None where there is no peer, or nothing of it to compare with."""
        return self.ours.median / self.peer.median if self.peer and self.peer.median else None

    @property
    def reached(self) -> bool | None:
        """None where the row is only reported."""
        if self.reach is None:
            return None
        value = self.ratio if self.reach.of == "ratio" else self.ours.median
        assert value is not None
        return value <= self.reach.bound if self.reach.sign == "≤" else value >= self.reach.bound

    def record(self) -> dict[str, Any]:
        """The row as JSON holds it: medians, and beside them the range and number of the runs."""
        peer = self.peer
        return {
            "work": self.work,
            "unit": self.unit,
            "ours": _short(self.ours.median),
            "peer": _short(peer.median) if peer else None,
            "ratio": _short(self.ratio) if self.ratio is not None else None,
            "reach": str(self.reach) if self.reach else None,
            "reached": self.reached,
            "limit": _short(self.limit) if self.limit is not None else None,
            "ours_range": [_short(min(self.ours.runs)), _short(max(self.ours.runs))],
            "peer_range": [_short(min(peer.runs)), _short(max(peer.runs))] if peer else None,
            "runs": len(self.ours.runs),
        }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


@dataclass(frozen=True)
class Plan:
    """Where to work and how much: `tiny` makes one run of a hundredth, to see that a benchmark works at all."""

    scratch: Path
    tiny: bool = False

    def size(self, full: int) -> int:
        """How much of the full work to do."""
        return max(1, full // 100) if self.tiny else full

    def alternate(self, *works: Run, rounds: int = 5) -> list[dict[str, Measured]]:
        """Run `works` in turn, `rounds` times each."""
        seen: list[list[Mapping[str, float]]] = [[] for _ in works]
        for _ in range(1 if self.tiny else rounds):
            for work, values in zip(works, seen, strict=True):
                values.append(work())
        return [{unit: Measured(tuple(v[unit] for v in values)) for unit in values[0]} for values in seen]


def apart(function: Callable[..., T], *arguments: Any) -> T:
    """Call `function` in a new process, so that its memory, threads and imports are not this one's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def environment(code: Path = ROOT) -> dict[str, str]:
    """What a process sees that works on the code of `code`: it, and this interpreter's programs, first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(code / "src"), "PATH": path, "DVC_NO_ANALYTICS": "1"}


def process(command: Sequence[str], folder: Path, code: Path = ROOT) -> dict[str, float]:
    """Run a Python command in `folder` on the code of `code`: its wall time (s) and its peak memory (GB).

    The system counts no less than the peak of the process that calls this: keep that one small where memory matters.
    """
    with TemporaryFile() as output:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment(code), stdout=output, stderr=output
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)}: exit {child.returncode}\n{output.read().decode()}")
    return {"s": seconds, "GB": usage.ru_maxrss * 1024 / 1e9}
