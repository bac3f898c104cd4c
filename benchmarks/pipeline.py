"""The pipeline with the default systems: time of a run with nothing to do, and overhead of the flow over its stages.

Both are measured without changes to epigram. A hook in every Python process records when a stage's command starts and
ends. With one stage at a time all stages are on the critical path, so the flow's overhead is the wall time of the whole
command, from the start of its process to its end, minus the sum of the stages' commands.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.corpora import change
from benchmarks.rows import Measured, Reach, Row
from benchmarks.timing import ROOT, Plan, environment, process

FLOW = ("-m", "epigram.cli", "run")
WAIT = 120.0  # maximum seconds for a server to start
SETTINGS = {"systems": "those of params.yaml", "stages_at_a_time": 1}
# Runs in every Python process of the run: a stage's command appends its start and end, in seconds, to a file.
HOOK = """
import atexit, os, sys, time
if any(part.startswith("epigram.stages.") for part in sys.orig_argv):
    fields = open("/proc/self/stat", encoding="utf-8").read().rpartition(")")[2].split()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    start, leave, written, own = time.time() - age, os._exit, [], os.getpid()
    def write():  # once: at the interpreter's end, or before os._exit, which may follow it; a forked child does not
        if written or os.getpid() != own:
            return
        written.append(True)
        with open({file!r}, "a", encoding="utf-8") as file:
            file.write(f"{{start}} {{time.time()}}\\n")
    def ended(code):
        write()
        leave(code)
    os._exit = ended
    atexit.register(write)
"""


def copy(folder: Path) -> None:
    """Copy the repository's files as they are into a new git repository."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, check=True, encoding="utf-8").stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


def hooked(folder: Path, code: Path) -> tuple[dict[str, str], Path]:
    """Return environment changes that run `HOOK` in Python processes on `code`, and the file with the stages' times."""
    folder.mkdir()
    spans = folder / "spans"
    (folder / "sitecustomize.py").write_text(HOOK.format(file=str(spans)), encoding="utf-8")
    return {"PYTHONPATH": f"{folder}:{environment(code)['PYTHONPATH']}"}, spans


def worked(spans: Path) -> tuple[int, float]:
    """Return the number of stage commands and the sum of their seconds."""
    times = [list(map(float, line.split())) for line in spans.read_text(encoding="utf-8").splitlines()]
    return len(times), sum(end - start for start, end in times)


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """Run a Prefect server for the flows of `folder` while the context is open, from when it has deployed them."""
    command = [sys.executable, "-m", "epigram.cli", "dashboard", "--port", "0"]
    log, end = folder / "serve.log", time.monotonic() + WAIT
    with log.open("w", encoding="utf-8") as output:
        child = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=output, stderr=output)
    try:
        while "scheduled:" not in log.read_text(encoding="utf-8"):
            if child.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no server: {log.read_text(encoding='utf-8')}")
            time.sleep(0.1)
        yield
    finally:
        child.send_signal(signal.SIGINT)
        child.wait()


def whole_run(plan: Plan, folder: Path) -> list[Row]:
    """Run everything once, one stage at a time, and return the overhead of the flow over its stages."""
    copy(folder)
    if plan.tiny:
        change(folder, systems={"tfidf_svm": {"view": "token"}}, views={"token": {"tokenizer": "token"}})
    changes, spans = hooked(plan.scratch / "hook", folder)
    wall = process([*FLOW, "--max-parallel", "1"], folder, code=folder, changes=changes)["s"]
    count, own = worked(spans)
    return [
        Row(f"a first run, {count} stages, one at a time", "s", Measured((wall,))),
        Row("the same, wall time less the stages' commands", "s", Measured((wall - own,))),
        Row("the same", "% of wall time", Measured((100 * (wall - own) / wall,)), reach=Reach("≤", 10)),
    ]


def idle(plan: Plan, folder: Path) -> list[Row]:
    """Time a finished pipeline: `dvc repro`, the flow with its own server, the flow on a running server."""
    repro = ["-m", "dvc", "repro", "--quiet"]
    if plan.tiny:
        return [Row("dvc repro with nothing to do", "s", Measured((process(repro, folder, code=folder)["s"],)))]
    process(repro, folder, code=folder)
    alone, embedded = plan.alternate(
        lambda: process(repro, folder, code=folder), lambda: process(FLOW, folder, code=folder)
    )
    with served(folder):
        [running] = plan.alternate(lambda: process(FLOW, folder, code=folder))
    return [
        Row("dvc repro with nothing to do, default systems", "s", alone["s"], reach=Reach("≤", 1.5)),
        Row("the flow with nothing to do, on a running server", "s", running["s"], reach=Reach("≤", 4)),
        Row("the flow with nothing to do, with no server", "s", embedded["s"], reach=Reach("≤", 4)),
    ]


def rows(plan: Plan) -> list[Row]:
    """Return the rows of a whole run, then those of runs with nothing to do."""
    folder = plan.scratch / "finished"
    return [*whole_run(plan, folder), *idle(plan, folder)]
