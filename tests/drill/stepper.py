"""Run a module, and stop its process (SIGSTOP) before one of its steps.

python stepper.py LOG BEGIN AT MODULE [ARGUMENT ...]

A step changes a file below the working folder, opens a file of the inbox, starts a git command that changes something,
or connects to a server. Steps are numbered from the first one that matches the regular expression BEGIN, and written to
LOG, one per line. The process stops before step AT, or never if AT is 0. The module runs unchanged: Python's audit
events (PEP 578) reveal the steps.
"""

from __future__ import annotations

import os
import re
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Event → number of its paths.
ON_PATHS = {
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "shutil.rmtree": 1,
}
READING = {"rev-parse", "show", "status", "ls-files", "config", "log", "cat-file", "for-each-ref", "rev-list", "diff"}
UNSEEN = re.compile(r"(^|/)(__pycache__|\.epigram/prefect|\.dvc/tmp)(/|$)")  # caches and logs: not counted as steps
INBOX = "data/local/incoming"


class Steps:
    """Audit hook that logs the steps of this process and stops the process before one of them."""

    def __init__(self, log: str, begin: str, at: int) -> None:
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.begin, self.at, self.number = re.compile(begin), at, 0
        self.folder = f"{Path.cwd()}/"
        self.connects = "connect" in begin

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Process one audit event."""
        step = self.of(event, arguments)
        if not step or not (self.number or self.begin.search(step)):
            return
        self.number += 1
        os.write(self.log, f"{self.number} {step}\n".encode())
        if self.number == self.at:
            os.kill(os.getpid(), signal.SIGSTOP)

    def of(self, event: str, arguments: tuple[Any, ...]) -> str:
        """Return the step that an event begins; empty if it is none."""
        if event in ON_PATHS:
            paths = arguments[: ON_PATHS[event]] if _effective(event, arguments) else ()
            return self._on(event.rpartition(".")[2], paths)
        if event == "open" and arguments[0] is not None:
            changes = bool((arguments[2] or 0) & CHANGES)
            return self._on("write", arguments[:1]) if changes else self._on("read", arguments[:1], INBOX)
        if event == "subprocess.Popen" and not isinstance(arguments[1], str):
            return git_step([os.fsdecode(word) for word in arguments[1]])
        if event == "ctypes.dlsym" and arguments[1] == "renameat2":
            return "renameat2"  # no event contains its two paths
        return f"connect {arguments[1]}" if self.connects and event == "socket.connect" else ""

    def _on(self, what: str, paths: tuple[Any, ...], below: str = "") -> str:
        """Return a step on files in the working folder, or in its part `below`; empty if there are none."""
        names = [os.path.normpath(Path(self.folder, os.fsdecode(path))) for path in paths if not isinstance(path, int)]
        if not any(name.startswith(self.folder + below) for name in names):
            return ""
        shown = [name.removeprefix(self.folder) for name in names]
        return "" if any(map(UNSEEN.search, shown)) else f"{what} {' '.join(shown)}"


def _effective(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an event changes anything: not if it creates an existing folder or deletes a missing file."""
    if event in {"os.remove", "os.rmdir"}:
        # With a dir_fd, the event is part of `shutil.rmtree`.
        return arguments[1] == -1 and os.path.lexists(arguments[0])
    return event != "os.mkdir" or not os.path.lexists(arguments[0])


def git_step(words: list[str]) -> str:
    """Return what a git command changes; empty if it is no git command or changes nothing."""
    if Path(words[0]).name != "git":
        return ""
    rest = iter(words[1:])
    for word in rest:
        if word in {"-C", "-c"}:
            next(rest, None)
        elif not word.startswith("-"):
            listing = word == "worktree" and next(rest, "") == "list"
            return "" if word in READING or listing else f"git {word}"
    return ""


if __name__ == "__main__":
    log, begin, at, module = sys.argv[1:5]
    sys.argv[:] = [module, *sys.argv[5:]]
    sys.path[0] = str(Path.cwd())
    sys.addaudithook(Steps(log, begin, int(at)))
    runpy.run_module(module, run_name="__main__", alter_sys=True)
