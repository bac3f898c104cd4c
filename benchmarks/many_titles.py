"""Memory of training on many titles, more than fit into memory as Python objects.

    python -m benchmarks.many_titles [--titles 50000000] [--system textcnn] [--minutes 3] [--tiny]

encodes a small corpus, replaces the arrays of its train split by random ones of as many titles, and runs the stage
`train` for some minutes. Prints the seconds until the first report of steps, and the peak of the process's own memory,
without the pages of the memory-mapped arrays, which the system can reclaim at any time.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import corpora
from benchmarks.corpora import change, lay_out, repeated, titles
from benchmarks.timing import environment
from epigram.core.arrays import NpyWriter, Ragged, RaggedWriter
from epigram.core.files import read_json

ENCODED = "data/encoded/token"
ENCODED_TITLES = 20_000  # whose vocabulary and labels the random titles have
MEAN_LENGTH, CHUNK = 20, 1_000_000  # tokens; titles that are drawn at once
REPORT = re.compile(r"loss .* texts/s")


def prepare(scratch: Path, system: str, count: int) -> Path:
    """Return a folder with an encoded view whose train split has `count` random titles."""
    folder = scratch / "work"
    lay_out(folder, repeated(titles(scratch).drop("split"), min(count, ENCODED_TITLES)))
    change(folder, systems={system: {"view": "token"}}, views={"token": {}}, seeds=[0])
    corpora.prepare(folder, corpora.ARGUMENTS)
    draw(folder / ENCODED, count)
    return folder


def draw(view: Path, count: int) -> None:
    """Replace the arrays of the train split."""
    known, random = read_json(view / "view.json"), np.random.default_rng(0)
    names = {"ids": np.int32, "offsets": np.int64, "labels": np.int64, "rows": np.int64}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(NpyWriter(view / f"train.{name}.npy", dtype)) for name, dtype in names.items()
        }
        ids = RaggedWriter(writers["ids"], writers["offsets"])
        for start in range(0, count, CHUNK):
            some = min(CHUNK, count - start)
            lengths = random.integers(MEAN_LENGTH // 2, 3 * MEAN_LENGTH // 2 + 1, some)
            ids.append(Ragged.from_lengths(random.integers(5, known["vocabulary"], lengths.sum()), lengths))
            writers["labels"].append(random.integers(0, len(known["labels"]), some))
            writers["rows"].append(np.arange(start, start + some))


def train(folder: Path, system: str, seconds: float) -> tuple[float, float, str]:
    """Run the stage; return the seconds until its first report, its peak memory in GB, and its last report."""
    command = [sys.executable, "-m", "epigram.stages.train", system, ENCODED, "data/pretrained/token", "data/out"]
    first, peak, started, reports = float("nan"), 0, time.monotonic(), [""]
    with (folder / "log").open("w", encoding="utf-8") as log:
        child = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
        while child.poll() is None and time.monotonic() - started < seconds:
            time.sleep(0.5)
            peak = max(peak, anonymous_kb(child.pid))
            reports = REPORT.findall((folder / "log").read_text(encoding="utf-8")) or reports
            if np.isnan(first) and reports[-1]:
                first = time.monotonic() - started
        child.terminate()
        child.wait()
    return first, peak * 1024 / 1e9, reports[-1]


def anonymous_kb(pid: int) -> int:
    """Return the memory of a process in kB without the pages of mapped files."""
    found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the memory of training on many titles.")
    parser.add_argument("--titles", type=int, default=50_000_000)
    parser.add_argument("--system", default="textcnn")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--tiny", action="store_true", help="a few titles and seconds, to see that it works")
    asked = parser.parse_args()
    if asked.tiny:
        asked.titles, asked.minutes = 2_000, 0.2
    with TemporaryDirectory() as scratch:
        folder = prepare(Path(scratch), asked.system, asked.titles)
        size = sum(file.stat().st_size for file in (folder / ENCODED).glob("train.*")) / 1e9
        first, peak, last = train(folder, asked.system, 60 * asked.minutes)
    print(f"{asked.titles:,} titles in {size:.1f} GB: first report after {first:.0f} s, peak {peak:.2f} GB; {last}")


if __name__ == "__main__":
    main()
