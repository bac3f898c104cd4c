"""A tool's process: its end, its time, the peak memory of it and its children, and the load of other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

INTERVAL = 0.5  # seconds between two looks at the memory
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ended:
    """How a process ended: `failure` is the last line that it printed, or None."""

    failure: str | None
    seconds: float
    peak_mb: int  # sum of the proportional set sizes of the process and its descendants
    others: float  # mean number of processors that other processes used


def run(command: Sequence[str], folder: Path, *, limit: float, changes: Mapping[str, str], log: Path) -> Ended:
    """Run a command in `folder` until it ends or `limit` seconds have passed; `changes` override the environment.

    Its output goes to the file `log`, outside of `folder`. At the end none of its descendants is left.
    """
    start, busy, peak = time.perf_counter(), _busy_seconds(), 0
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **changes}, stdout=output, stderr=output, start_new_session=True
        )
    family = Family(child.pid)
    try:
        while True:
            peak = max(peak, family.memory_kb())
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            seconds = time.perf_counter() - start
            if ended or seconds > limit:
                break
            time.sleep(min(INTERVAL, max(0.01, seconds / 10)))
    finally:
        family.end()
    if not ended:
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    others = (_busy_seconds() - busy - usage.ru_utime - usage.ru_stime) / seconds
    failure = None if ended and child.returncode == 0 else _last_line(log, child.returncode if ended else None, limit)
    return Ended(failure, round(seconds, 1), peak // 1024, round(max(0.0, others), 2))


class Family:
    """A process and its descendants, with those whose parent has ended."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._started = {root: _started(root)}  # process: its start, which tells it from a later one of that number

    def memory_kb(self) -> int:
        """Look for new descendants and return the sum of the proportional set sizes."""
        self._look()
        return sum(map(_memory_kb, self._started))

    def end(self) -> None:
        """Kill the processes that are left."""
        self._look()
        for pid, started in self._started.items():
            if started and _started(pid) == started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _look(self) -> None:
        for pid in _descendants(self._root):
            self._started.setdefault(pid, _started(pid))


def _last_line(log: Path, code: int | None, limit: float) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    last = lines[-1][:300] if lines else "no output"
    return f"stopped after {limit:.0f} s: {last}" if code is None else f"exit code {code}: {last}"


def _descendants(root: int) -> set[int]:
    """Return the processes whose parent, or a parent's parent, is `root`."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = set[int](), [root]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def _stat(pid: int) -> list[str]:
    """Return state, parent and the further fields of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _started(pid: int) -> str:
    """Return the start of a process in clock ticks since the machine's; empty if it has ended."""
    fields = _stat(pid)  # read once: the process may end at any moment
    return fields[19] if fields else ""


def _memory_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _busy_seconds() -> float:
    """Return the processor time of all processes since the machine started."""
    user, nice, system, *_ = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    return (int(user) + int(nice) + int(system)) / TICKS
