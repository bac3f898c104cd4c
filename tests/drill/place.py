"""Folder in which commands run and faults are injected, one trial at a time."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.drill.reference import environment

MARK = "EPIGRAM_DRILL"  # in the environment of every process of a trial
SIZE = 256  # MB of a place's file system
GRACE = 20.0  # seconds after a command within which its child processes must have ended
LOOK = 0.05  # seconds between two looks at the running processes
LIMIT = 240.0  # seconds after which a command counts as hung


@dataclass(frozen=True)
class Ended:
    """Result of a command: exit code (negative for a signal), output, and whether it had to be killed."""

    code: int
    said: str
    hung: bool = False


@dataclass(frozen=True)
class Process:
    """A running process of a trial."""

    pid: int
    command: str


class Place:
    """Folder for trials, one at a time; `mounted` says whether it is a small file system of its own."""

    def __init__(self, folder: Path, server: str, *, mounted: bool) -> None:
        self.folder, self.server, self.mounted = folder, server, mounted
        self.repo, self.room = folder / "disk" / "repo", folder / "disk"
        self.mark, self.turn = "", 0  # index of the fault among those of its kind
        self.outputs: list[Path] = []
        self.room.mkdir(parents=True)
        if mounted:
            mount("-t", "tmpfs", "-o", f"size={SIZE}m", "drill", str(self.room))

    def clear(self, mark: str) -> None:
        """Begin a trial: delete everything that the previous one left."""
        self.mark = f"{self.folder}:{mark}"
        for old in self.room.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        for path in self.outputs:
            path.unlink(missing_ok=True)
        self.outputs.clear()

    def settings(self) -> dict[str, str]:
        """Return the environment variables of a trial's commands that a user does not have."""
        return {MARK: self.mark, "TMPDIR": str(self.room / "tmp")}

    def start(self, *command: str, **env: str) -> Running:
        """Start a command of the trial in its own session."""
        output = self.folder / f"output-{len(self.outputs)}.txt"
        self.outputs.append(output)
        with output.open("w") as file:
            child = subprocess.Popen(
                command,
                cwd=self.repo,
                env=environment(self.repo, **self.settings() | env),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Running(self, child, output)

    def processes(self) -> list[Process]:
        """Return the running processes of this trial."""
        wanted, found = f"{MARK}={self.mark}".encode(), []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    if any(words) and wanted in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(Process(int(folder.name), b" ".join(words).decode(errors="replace").strip()))
        return found

    def find(self, part: str, running: Running, seconds: float = 60.0) -> int | None:
        """Return the id of the process whose command contains `part`, once it exists; None if the run ends before."""
        end = time.monotonic() + seconds
        while running.child.poll() is None and time.monotonic() < end:
            # The shell, the supervisor and the stage's parent contain the same words, and start first.
            pids = [each.pid for each in self.processes() if part in each.command and not _between(each.command)]
            if pids:
                return pids[-1]
            time.sleep(0.03)
        return None

    def wait_until_idle(self) -> list[Process]:
        """Wait until no process of the trial is running; return those that still run after GRACE seconds.

        A process in the middle of `execve` has no arguments and no environment, so one look can miss it.
        """
        end, empty_looks = time.monotonic() + GRACE, 0
        while empty_looks < 2 and time.monotonic() < end:
            empty_looks = 0 if self.processes() else empty_looks + 1
            time.sleep(LOOK)
        return self.processes()

    def orphans(self) -> list[Process]:
        """Kill and return the processes that still run GRACE seconds after the trial's commands have ended."""
        left = self.wait_until_idle()
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return left

    @contextlib.contextmanager
    def full(self, left: int) -> Iterator[None]:
        """Leave `left` bytes free on the file system while the context is open."""
        filler = self.room / "filler"
        free = os.statvfs(self.room)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - left))
        try:
            yield
        finally:
            filler.unlink()

    @contextlib.contextmanager
    def read_only(self, folder: Path) -> Iterator[None]:
        """Make a folder read-only while the context is open."""
        mount("--bind", str(folder), str(folder))
        mount("-o", "remount,bind,ro", str(folder))
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)

    def close(self) -> None:
        """Unmount the file system."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.room)], check=False)


class Running:
    """A command of a trial."""

    def __init__(self, place: Place, child: subprocess.Popen[bytes], output: Path) -> None:
        self.place, self.child, self.output = place, child, output

    def after(self, seconds: float) -> bool:
        """Wait `seconds` or until the command ends; return whether it is still running."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(seconds)
        return self.child.poll() is None

    def until(self, condition: Callable[[str], bool], seconds: float = 60.0) -> bool:
        """Wait until the command's output meets the condition; return False if the command ends before."""
        end = time.monotonic() + seconds
        while self.child.poll() is None and time.monotonic() < end:
            if condition(self.output.read_text(errors="replace")):
                return True
            time.sleep(0.03)
        return False

    def send(self, number: signal.Signals, *, group: bool = False) -> bool:
        """Send a signal to the command or, as a terminal does, to its process group; return whether it was alive."""
        if self.child.poll() is not None:
            return False
        (os.killpg if group else os.kill)(self.child.pid, number)  # not reaped yet, so the process id is still valid
        return True

    def kill(self) -> None:
        """Kill only the command itself, and wait for it."""
        self.send(signal.SIGKILL)
        self.child.wait()

    def wait(self) -> Ended:
        """Wait until the command ends; kill a hung command and its process group."""
        hung = self.after(LIMIT)
        if hung:
            self.send(signal.SIGKILL, group=True)
            self.child.wait()
        return Ended(self.child.returncode, self.output.read_text(errors="replace"), hung)


def mount(*arguments: str) -> None:
    """Run mount in the drill's own namespace."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def moment(rng: random.Random, seconds: float) -> float:
    """Return a random time between 0 and `seconds`."""
    return rng.uniform(0.0, seconds)


def _between(command: str) -> bool:
    return "src/epigram/core/supervisor.py" in command or " -c " in f" {command} "
