"""Run a change once for each of its steps, each time in a copy of a repository, and disturb it before that step.

A step is a change of a file outside hidden folders, or a git command that changes a branch or a tag.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from epigram.core.files import is_inside

NOT_REACHED = 3  # exit code: the change has fewer steps
CHANGING = {"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"}  # audit events
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MOVING = {"branch", "tag", "update-ref"}  # git commands
ENTRY = Path(".epigram/entry.json")  # the champion that `promote` promotes
ARRIVING = Path("data/local/incoming/b.csv")
APPENDED = "appended while it was read,good\n"


def disturbed(change: str, root: Path, folder: Path, disturbance: str = "kill") -> list[Path]:
    """Return copies of `root` in `folder`; in copy N, `change` was disturbed before its step N."""
    folder.mkdir()
    command = [sys.executable, __file__, change, str(root), str(folder), disturbance]
    paths = os.pathsep.join(str(Path(__file__).resolve().parents[2] / part) for part in ("src", "."))
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return sorted(folder.iterdir(), key=lambda copy: int(copy.name))


def take() -> None:
    """Ingest new rows."""
    from epigram.runner.retraining import ingest
    from epigram.runner.workspace.settings import load

    ingest.ingest_rows(Path.cwd(), "shop", load())


def forget() -> None:
    """Withdraw the rows of a file."""
    from epigram.runner.retraining.live_data import LiveData
    from epigram.runner.retraining.withdrawal import withdraw
    from epigram.runner.workspace.settings import load

    withdraw(LiveData(Path.cwd(), "shop_live", load()), "a.csv")


def promote() -> None:
    """Promote the champion of entry.json."""
    from epigram.core.config_types import validate_as
    from epigram.runner.champions import champion

    entry = validate_as(champion.Champion, json.loads(ENTRY.read_text()))
    champion.promote(Path.cwd(), Path.cwd(), entry, '{"known": 4}\n')


def rollback() -> None:
    """Restore the previous champion."""
    from epigram.runner.champions import champion

    champion.rollback(Path.cwd())


def killed() -> Callable[[], object]:
    """Return a function that kills this process."""
    return lambda: os.kill(os.getpid(), signal.SIGKILL)


def arriving() -> Callable[[], object]:
    """Return a function that appends to b.csv through a file opened earlier, then replaces b.csv by a new batch."""
    file = ARRIVING.open("a")

    def arrive() -> None:
        file.write(APPENDED)
        file.flush()
        ARRIVING.with_name(".b.csv").replace(ARRIVING)

    return arrive


CHANGES = {each.__name__: each for each in (take, forget, promote, rollback)}
DISTURBANCES = {"kill": killed, "arrive": arriving}
NEEDED = {
    "take": (
        "polars",
        "epigram.runner.retraining.ingest",
        "epigram.runner.dvc.adapter",
        "pydantic",
        "epigram.data.incoming_rows",
        "epigram.data.growing_dataset",
        "epigram.data.sources.source",
    ),
    "forget": ("epigram.runner.retraining.withdrawal", "epigram.runner.dvc.adapter", "epigram.data.growing_dataset"),
    "promote": ("epigram.runner.champions.champion", "dvc.utils.serialize", "pydantic"),
    "rollback": ("epigram.runner.champions.champion", "dvc.api", "dvc.repo", "pydantic"),
}


class Steps:
    """Audit hook that counts the steps below the working directory and disturbs before the step with index `at`."""

    def __init__(self, at: int, disturb: Callable[[], object]) -> None:
        self.root, self.at, self.disturb = Path.cwd(), at, disturb
        self.seen, self.disturbing = 0, False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.disturbing or not self._is_step(event, arguments):
            return
        self.seen += 1
        if self.seen == self.at + 1:
            self.disturbing = True
            self.disturb()
            self.disturbing = False

    def _is_step(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "subprocess.Popen":
            return not MOVING.isdisjoint(arguments[1])
        if event == "ctypes.dlopen":
            return arguments[0] is None  # renameat2 follows
        if event == "open":
            return bool(arguments[2] & WRITING) and self._is_inside(arguments[0])
        return event in CHANGING and any(map(self._is_inside, arguments[:2])) and not self._is_idle(event, arguments[0])

    def _is_inside(self, path: Any) -> bool:
        """Return whether a path is below the working directory and in no hidden folder."""
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        file = Path(os.fsdecode(path)).absolute()
        return is_inside(file, self.root) and not any(
            part.startswith(".") for part in file.relative_to(self.root).parts[:-1]
        )

    def _is_idle(self, event: str, path: Any) -> bool:
        """Return whether nothing changes: the folder to create exists, or the file to delete does not."""
        return {"os.mkdir": True, "os.remove": False}.get(event) is os.path.lexists(path)


def main(change: str, root: str, folder: str, disturbance: str) -> None:
    """Fork a process for each step; this process has imported all that the change needs and has no other threads."""
    for module in NEEDED[change]:
        __import__(module)
    for number in count():
        copy = Path(folder) / str(number)
        shutil.copytree(root, copy, symlinks=True)
        child = os.fork()
        if child == 0:
            _run(CHANGES[change], copy, number, DISTURBANCES[disturbance])
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == NOT_REACHED:
            shutil.rmtree(copy)
            return
        if code not in {0, -signal.SIGKILL}:
            sys.exit(code)


def _run(change: Callable[[], None], copy: Path, number: int, disturbance: Callable[[], Any]) -> None:
    code = 1
    try:
        os.chdir(copy)
        steps = Steps(number, disturbance())
        sys.addaudithook(steps)
        change()
        code = 0 if steps.seen > number else NOT_REACHED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
