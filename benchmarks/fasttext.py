"""fastText on titles: our system against the `fasttext` program with the same n-grams, sizes and threads.

The program is found on the PATH (Debian: apt-get install fasttext); where it is not, the rows have no peer.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.corpora import change, encoded
from benchmarks.timing import Measured, Plan, Reach, Row, process
from pithy.files import read_json
from pithy.systems.recipe import ENCODERS, part
from pithy.systems.registry import RECIPES
from pithy.text.tokenizers import load
from pithy.text.view import Split, View

SYSTEM, THREADS = "fast_text", 2
TITLES, DEV = 20_000, 10_000
RATES = (0.1, 0.25, 0.5, 1.0)  # the program's learning rates that are tried on dev, untimed


def write(path: Path, view: View, split: Split) -> None:
    """A split as the program reads it: a line a title, its tokens with spaces between behind its label."""
    tokenizer = load(view.tokenizer_json)
    vocabulary = [tokenizer.id_to_token(number) for number in range(view.vocabulary)]
    ends = zip(split.offsets[:-1], split.offsets[1:], split.labels, strict=True)
    lines = (f"__label__{label} {' '.join(vocabulary[i] for i in split.ids[a:b])}\n" for a, b, label in ends)
    path.write_text("".join(lines), encoding="utf-8")


class Program:
    """The `fasttext` program with our system's sizes, on the titles of a view."""

    def __init__(self, program: str, view: View, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.config: Any = part(ENCODERS, RECIPES[SYSTEM].encoder, SYSTEM)
        folder.mkdir(exist_ok=True)
        for name in ("train", "dev"):
            write(folder / f"{name}.txt", view, view.split(name))

    def run(self, arguments: Sequence[str]) -> str:
        """What the program prints."""
        return subprocess.run(
            [self.program, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout

    def train(self, rate: float) -> dict[str, float]:
        """A whole training at its own number of epochs: its seconds and its accuracy (%) on dev."""
        sizes = {"-dim": self.config.width, "-bucket": self.config.buckets, "-wordNgrams": max(self.config.orders)}
        options = {**sizes, "-thread": THREADS, "-lr": rate, "-input": "train.txt", "-output": "model"}
        start = perf_counter()
        self.run(["supervised", *(str(part) for pair in options.items() for part in pair)])
        seconds = perf_counter() - start
        found = re.search(r"P@1\s+([\d.]+)", self.run(["test", "model.bin", "dev.txt"]))
        assert found is not None
        return {"s": seconds, "%": 100 * float(found[1])}

    def best_rate(self) -> float:
        """The learning rate that is best on dev."""
        return max(RATES, key=lambda rate: self.train(rate)["%"])


def ours(folder: Path) -> dict[str, float]:
    """The train stage as a whole."""
    arguments = ("data/encoded/token", "data/pretrained/token", "data/models/fast_text")
    seconds = process(["-m", "pithy.stages.train", SYSTEM, *arguments], folder)["s"]
    return {"s": seconds, "%": 100 * read_json(folder / arguments[2] / "seed-0/manifest.json")["dev_accuracy"]}


def rows(plan: Plan) -> list[Row]:
    """Seconds of a whole training in a process of its own, and dev accuracy."""
    data = encoded(plan.scratch, plan.size(TITLES), plan.size(DEV))
    folder = data.parents[2]
    change(folder, systems={SYSTEM: {"view": "token", "train": {"threads": THREADS}}}, views={"token": {}})
    view = View.load(data)
    found, peer = shutil.which("fasttext"), None
    if found is None:
        print("fasttext: no program of that name on the PATH, so the rows have no peer", file=sys.stderr)
        [mine] = plan.alternate(lambda: ours(folder))
    else:
        program = Program(found, view, plan.scratch / "fasttext")
        rate = program.best_rate()
        mine, peer = plan.alternate(lambda: ours(folder), lambda: program.train(rate))
    work = f"fast_text, {len(view.split('train')):,} titles"
    if peer is None:
        return [Row(f"{work}, train stage", "s", mine["s"]), Row("the same, dev accuracy", "%", mine["%"])]
    gap = Measured(tuple(ours - theirs for ours, theirs in zip(mine["%"].runs, peer["%"].runs, strict=True)))
    return [
        Row(f"{work}, train stage / fasttext -wordNgrams 3", "s", mine["s"], peer["s"], Reach("≤", 2, "ratio")),
        Row("the same, dev accuracy", "%", mine["%"], peer["%"]),
        Row("the same, ours less theirs", "points", gap, reach=Reach("≥", -0.3)),
    ]
