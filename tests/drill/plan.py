"""Plan of the faults, and the results: one JSON line per fault, so that an interrupted drill can be continued."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.drill.bench import ROOT
from tests.drill.faults import Fault
from tests.drill.trial import Trial

FILE = ROOT / ".epigram" / "drill.jsonl"
DOCUMENT = ROOT / "docs/reliability.md"
BEGIN, END = "<!-- drill -->", "<!-- /drill -->"
HEAD = ("fault", "trials", "observed", "repaired", "losses", "most progress lost", "seconds")


@dataclass(frozen=True)
class Planned:
    """A fault of a plan."""

    seed: int
    number: int
    fault: Fault


def plan(usable: list[Fault], count: int, seed: int) -> list[Planned]:
    """Return `count` faults in random order: each kind once before any is drawn again by its weight."""
    rng = random.Random(seed)
    drawn = rng.choices(usable, [fault.weight for fault in usable], k=count)
    faults = [*rng.sample(usable, len(usable)), *drawn][:count]
    rng.shuffle(faults)
    return [Planned(seed, number, fault) for number, fault in enumerate(faults, 1)]


class Results:
    """Results of one commit in a file. For a tree with uncommitted changes, only those of this process are valid."""

    def __init__(self, commit: str, name: str, file: Path = FILE) -> None:
        self.commit, self.name, self.file = commit, name, file
        self.part = f"{time.time():.3f}-{os.getpid()}"

    def append(self, seed: int, trial: Trial) -> None:
        """Append a result to the file at once."""
        result = {"commit": self.commit, "plan": self.name, "part": self.part, "seed": seed, "trial": asdict(trial)}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab", buffering=0) as file:  # line break first: the last line may be incomplete
            file.write(("\n" + json.dumps(result, ensure_ascii=False)).encode())

    def read(self) -> list[dict[str, Any]]:
        """Return all results of the commit; incomplete lines are skipped."""
        found = []
        for line in self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        own = [each for each in found if each["commit"] == self.commit]
        return [each for each in own if each["part"] == self.part] if self.commit.endswith("-dirty") else own

    def left(self, planned: list[Planned]) -> list[Planned]:
        """Return the faults of the plan that have no result yet."""
        done = {(r["seed"], r["trial"]["number"], r["trial"]["fault"]) for r in self.read() if r["plan"] == self.name}
        return [each for each in planned if (each.seed, each.number, each.fault.name) not in done]


def commit() -> str:
    """Return the checked-out commit, with `-dirty` if a tracked file differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def table(results: list[dict[str, Any]], commit: str, lanes: int, left_out: list[str]) -> str:
    """Return a Markdown table of each fault's trials, observed hits, repairs, losses and mean run time."""
    rows, trials = defaultdict(list), [result["trial"] for result in results]
    for trial in trials:
        rows[trial["fault"]].append(trial)
    observed = [trial for trial in trials if trial["observed"]]
    lost, others = (sum(bool(trial["losses"]) for trial in each) for each in (observed, trials))
    seeds = ", ".join(map(str, sorted({result["seed"] for result in results})))
    minutes = sum(trial["seconds"] for trial in trials) / 60 / lanes
    lines = [
        f"Commit {commit}, {len(os.sched_getaffinity(0))} cores, seeds {seeds}: {len(trials)} faults injected in "
        f"{minutes:.0f} minutes.",
        f"{len(observed)} of them were observed to hit: **{lost} losses** among these, {others - lost} among others.",
        *(f"Left out: {each}." for each in left_out),
        "",
        f"| {' | '.join(HEAD)} |",
        f"| --- |{' ---: |' * (len(HEAD) - 1)}",
        *(_row(fault, found) for fault, found in sorted(rows.items())),
    ]
    return "\n".join(lines) + "\n"


def _row(fault: str, trials: list[dict[str, Any]]) -> str:
    counts = [sum(bool(trial[name]) for trial in trials) for name in ("observed", "mended", "losses")]
    lost = [trial["lost"] for trial in trials if trial["lost"]]
    most = f"{max(e['steps'] for e in lost)} steps, {max(e['seconds'] for e in lost):.1f} s" if lost else ""
    mean = sum(trial["seconds"] for trial in trials) / len(trials)
    return f"| {fault} | {len(trials)} | {' | '.join(map(str, counts))} | {most} | {mean:.1f} |"


def write(text: str) -> None:
    """Replace the text between the two markers of the document by the table."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
