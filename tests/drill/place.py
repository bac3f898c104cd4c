"""Folder in which commands run and faults are injected, one trial at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "EPIGRAM_DRILL"  # in the environment of every process of a trial
SIZE = 256  # MB of a place's file system
GRACE = 20.0  # seconds after a command within which its child processes must have ended
LIMIT = 240.0  # seconds after which a command counts as hung


@dataclass(frozen=True)
class Ended:
    """Result of a command: exit code (negative for a signal), output, and whether it had to be killed."""

    code: int
    said: str
    hung: bool = False

    def mentions(self, *words: str) -> bool:
        """Return whether the command printed one of the words."""
        return any(word in self.said for word in words)


class Place:
    """Folder for trials, one at a time; `mounted` says whether it is a small file system of its own."""

    def __init__(self, folder: Path, server: str, *, mounted: bool) -> None:
        self.folder, self.server, self.mounted = folder, server, mounted
        self.repo, self.room = folder / "disk" / "repo", folder / "disk"
        self.mark = ""
        self.outputs: list[Path] = []
        self.room.mkdir(parents=True)
        if mounted:
            mount("-t", "tmpfs", "-o", f"size={SIZE}m", "drill", str(self.room))

    def restore(self, mark: str) -> None:
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
            env = environment(self.repo, **self.settings() | env)
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT}
            child = subprocess.Popen(command, cwd=self.repo, env=env, start_new_session=True, **streams)  # type: ignore[call-overload]
        return Running(child, output)

    def processes(self) -> dict[int, str]:
        """Return the running processes of this trial: process id → command."""
        wanted, found = f"{MARK}={self.mark}".encode(), {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    if any(words) and wanted in (folder / "environ").read_bytes().split(b"\0"):
                        found[int(folder.name)] = b" ".join(words).decode(errors="replace").strip()
        return found

    def find(self, part: str, running: Running, seconds: float = 60.0) -> int | None:
        """Return the id of the process whose command contains `part`, once it exists; None if the run ends before."""
        end = time.monotonic() + seconds
        while running.alive and time.monotonic() < end:
            # The shell, the supervisor and the stage's parent contain the same words, and start first.
            pids = [pid for pid, command in self.processes().items() if part in command and not _between(command)]
            if pids:
                return pids[-1]
            time.sleep(0.03)
        return None

    def wait_until_idle(self) -> dict[int, str]:
        """Wait until no process of the trial is running; return those that still run after GRACE seconds.

        A process in the middle of `execve` has no arguments and no environment, so one look can miss it.
        """
        end, empty_looks = time.monotonic() + GRACE, 0
        while empty_looks < 2 and time.monotonic() < end:
            empty_looks = 0 if self.processes() else empty_looks + 1
            time.sleep(0.05)
        return self.processes()

    def orphans(self) -> list[str]:
        """Kill the processes that still run GRACE seconds after the trial's commands, and return their commands."""
        left = self.wait_until_idle()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return list(left.values())

    @contextlib.contextmanager
    def full(self, left: int) -> Iterator[None]:
        """Leave `left` bytes free on the file system while the context is open."""
        filler, free = self.room / "filler", os.statvfs(self.room)
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

    def __init__(self, child: subprocess.Popen[bytes], output: Path) -> None:
        self.child, self.output = child, output

    @property
    def alive(self) -> bool:
        """Whether the command is still running."""
        return self.child.poll() is None

    @property
    def said(self) -> str:
        """What the command has printed so far."""
        return self.output.read_text(errors="replace")

    def after(self, seconds: float) -> None:
        """Wait `seconds` or until the command ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(seconds)

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> bool:
        """Wait until the condition holds; return False if the command ends before."""
        end = time.monotonic() + seconds
        while self.alive and time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.01)
        return False

    def send(self, number: signal.Signals, *, group: bool = False) -> bool:
        """Send a signal to the command or, as a terminal does, to its process group; return whether it was alive."""
        if not self.alive:
            return False
        (os.killpg if group else os.kill)(self.child.pid, number)  # not reaped yet, so the process id is still valid
        return True

    def wait(self) -> Ended:
        """Wait until the command ends; kill a hung command and its process group."""
        self.after(LIMIT)
        if hung := self.alive:
            self.send(signal.SIGKILL, group=True)
            self.child.wait()
        return Ended(self.child.returncode, self.said, hung)


def environment(repo: Path, **more: str) -> dict[str, str]:
    """Return a user's shell environment with this interpreter, the repository's code and DVC's state beside it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "GIT_", "EPIGRAM_"))}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{repo}{os.pathsep}{repo / 'src'}",
        "PYTHONUNBUFFERED": "1",
        "DVC_SITE_CACHE_DIR": str(repo.parent / "site"),
        "DVC_NO_ANALYTICS": "1",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "1",
        "EPIGRAM_CHECKPOINT_SECONDS": "0",
        **more,
    }


def mount(*arguments: str) -> None:
    """Run mount in the drill's own namespace."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def state_of(pid: int) -> str:
    """Return the letter of a process's state, T if it is stopped; empty if it has ended, also as a zombie."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return letter.strip("ZX")


def kill(pid: int | None) -> bool:
    """Kill a process; return whether it was alive and has ended."""
    if not pid or not state_of(pid):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 5
        while state_of(pid) and time.monotonic() < end:
            time.sleep(0.01)
        return not state_of(pid)
    return False


def _between(command: str) -> bool:
    return "src/epigram/process/supervisor.py" in command or " -c " in f" {command} "
