"""The pipeline itself: with nothing to do, and what running it through the flow costs beside its stages."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from benchmarks.corpora import change
from benchmarks.timing import ROOT, Plan, Reach, Row, environment, process
from pithy.files import read_json

SYSTEM = "tfidf_svm"
PAIR = ("textcnn", "fast_text")  # that do not wait for each other
FLOW = ("-m", "flows.pipeline")
WAIT = 120.0  # seconds for a server to start


def copy(folder: Path, systems: Sequence[str]) -> None:
    """The repository's files as they stand with these systems, in a git repository of their own."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, check=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    views = {"token": {"tokenizer": "token"}}
    change(folder, dataset="pocket_zh", systems={name: {"view": "token"} for name in systems}, views=views)


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """A Prefect server for the flows of `folder` while the context is open."""
    command = [sys.executable, "-m", "flows.serve", "--port", "0"]
    log, end = folder / "serve.log", time.monotonic() + WAIT
    with log.open("w") as output:
        child = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=output, stderr=output)
    try:
        while "dashboard" not in log.read_text():
            if child.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no server: {log.read_text()}")
            time.sleep(0.1)
        yield
    finally:
        child.send_signal(signal.SIGINT)
        child.wait()


def idle(plan: Plan) -> list[Row]:
    """A finished pipeline of one system: `dvc repro`, the flow with a server of its own, the flow on a server."""
    folder = plan.scratch / "finished"
    copy(folder, [SYSTEM])
    repro = ["-m", "dvc", "repro", "--quiet"]
    process(repro, folder, code=folder)
    alone, embedded = plan.alternate(
        lambda: process(repro, folder, code=folder), lambda: process(FLOW, folder, code=folder)
    )
    with served(folder):
        [running] = plan.alternate(lambda: process(FLOW, folder, code=folder))
    return [
        Row(f"dvc repro with nothing to do, {SYSTEM}", "s", alone["s"], reach=Reach("≤", 1.5)),
        Row("the flow with nothing to do, on a running server", "s", running["s"], reach=Reach("≤", 4)),
        Row("the flow with nothing to do, with no server", "s", embedded["s"], reach=Reach("≤", 10)),
    ]


def busy(plan: Plan) -> list[Row]:
    """Whole runs of two systems, one stage at a time and two: what the flow adds, and that stages overlap."""
    numbers = count()

    def run(slots: int) -> dict[str, float]:
        folder = plan.scratch / f"run-{next(numbers)}"
        copy(folder, PAIR)
        process([*FLOW, "--name", "run", "--max-parallel", str(slots)], folder, code=folder)
        summary = read_json(folder / "runs/run/summary.json")
        wall, worked = summary["wall_seconds"], sum(stage["seconds"] for stage in summary["stages"].values())
        shutil.rmtree(folder)
        return {"s": wall, "added": 100 * (wall - worked) / wall}

    one, two = plan.alternate(lambda: run(1), lambda: run(2))
    systems = ", ".join(PAIR)
    overlap = Row("the same, two stages at a time / one at a time", "s", two["s"], one["s"], Reach("≤", 1, "ratio"))
    return [
        Row(f"a run of {systems}: the flow's time less its stages'", "% of wall", one["added"], reach=Reach("≤", 10)),
        overlap,
    ]


def rows(plan: Plan) -> list[Row]:
    """Nothing to do, then everything."""
    return [*idle(plan), *busy(plan)]
