"""Pytest in children that are forked from a process with the heavy libraries already imported."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutants import ROOT
from tests.mutation.plugins import ENVIRONMENT

# Third-party modules only: the children import the project's own code from their tree.
HEAVY = Path(__file__).parent / "heavy.txt"
OURS = {"epigram", "tests", "tasks", "flows", "benchmarks"}
LATE = -1  # exit code: the time limit was exceeded
BUSY = 10.0  # a child's limit of wall-clock time, in multiples of its CPU limit: other programs use the CPU too
BROKEN = 70  # exit code: the child did not run the tests of its tree


def preload() -> None:
    """Import the libraries that most tests need."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in HEAVY.read_text().split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # exclude the parent's objects from the children's garbage collection, so that memory stays shared


@dataclass
class Job:
    """Child process that runs `main` in the folder `tree`, limited to `seconds` of CPU time."""

    main: Callable[[], int]
    tree: Path
    log: Path
    seconds: float
    env: dict[str, str]
    pid: int = 0
    started: float = 0.0

    def start(self) -> None:
        """Fork the child."""
        sys.stdout.flush()
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._run()

    def poll(self) -> int | None:
        """Return the exit code, LATE if the time limit was exceeded, or None while the child runs."""
        late = time.monotonic() - self.started > BUSY * self.seconds
        if late:
            self.kill()
        pid, status = os.waitpid(self.pid, 0 if late else os.WNOHANG)
        if pid == 0:
            return None
        self.kill()
        code = os.waitstatus_to_exitcode(status)
        return LATE if late or code == -signal.SIGXCPU else code % 256

    def kill(self) -> None:
        """Kill the child and all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _run(self) -> None:
        """Run `main` in the child and exit."""
        code = BROKEN
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (int(self.seconds), int(self.seconds) + 5))
            _redirect(self.log)
            os.chdir(self.tree)
            paths = [str(self.tree), str(self.tree / "src")]
            os.environ.update(self.env | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(paths)})
            sys.path[:] = paths + [each for each in sys.path if each and Path(each) not in {ROOT, ROOT / "src"}]
            for name in [each for each in sys.modules if each.split(".")[0] in OURS]:
                del sys.modules[name]
            Path("/proc/self/oom_score_adj").write_text("1000")  # out of memory: the kernel kills only this process
            code = self.main()
            code = code if _imported_from(self.tree) else BROKEN
        except BaseException:  # the child must never return to the parent's code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _imported_from(tree: Path) -> bool:
    """Return whether the project's modules in this process are those of `tree`."""
    ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "epigram"]
    files = [file for module in ours if (file := getattr(module, "__file__", None))]
    return all(Path(file).is_relative_to(tree) for file in files)


def _redirect(log: Path) -> None:
    """Redirect standard output and error to `log`, and standard input to the null device."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for target in (1, 2):
        os.dup2(file, target)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
