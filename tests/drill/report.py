"""Result table of the drill, and its place in docs/reliability.md."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.drill.progress import LIMIT
from tests.drill.results import Result, minutes
from tests.drill.trial import Trial

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/reliability.md"
BEGIN, END = "<!-- drill -->", "<!-- /drill -->"


@dataclass(frozen=True)
class About:
    """The tested code and the machine."""

    commit: str
    date: str
    cores: int
    left_out: tuple[str, ...] = ()


def about(left_out: list[str]) -> About:
    """Return the checked-out commit, with `-dirty` if a tracked file differs from it, its date and the core count."""
    commit = _git("describe", "--always", "--dirty", "--abbrev=10", "--exclude=*")
    date = _git("show", "--no-patch", "--format=%cs", "HEAD")
    return About(commit, date, len(os.sched_getaffinity(0)), tuple(left_out))


def table(results: list[Result], about: About) -> str:
    """Return a Markdown table of each fault's trials, observed hits, repairs, losses and mean run time."""
    rows: dict[str, list[Trial]] = defaultdict(list)
    for result in results:
        rows[result.trial.fault].append(result.trial)
    lines = [
        *_summary(results, about),
        "",
        "| fault | trials | observed | repaired | losses | most progress lost | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_row(fault, found) for fault, found in sorted(rows.items())),
    ]
    return "\n".join(lines) + "\n"


def write(text: str) -> None:
    """Replace the text between the two markers of the document by the table."""
    document = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def _summary(results: list[Result], about: About) -> list[str]:
    trials = [result.trial for result in results]
    observed = [trial for trial in trials if trial.observed]
    lost, others = (sum(bool(trial.losses) for trial in each) for each in (observed, trials))
    lines = [
        f"Commit {about.commit} of {about.date}, {about.cores} cores, {_seeds(results)}: {len(trials)} faults injected "
        f"in {minutes(results):.0f} minutes.",
        f"{len(observed)} of them were observed to hit: **{lost} losses** among these"
        + (f", {others - lost} among the others." if others > lost else "."),
    ]
    if any(trial.lost for trial in observed):
        lines.append(f"kill -9 in training cost at most {_most(observed)} (limit: {LIMIT} step).")
    return lines + [f"Left out: {each}." for each in about.left_out]


def _seeds(results: list[Result]) -> str:
    seeds = sorted({result.seed for result in results})
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _row(fault: str, trials: list[Trial]) -> str:
    counts = [sum(map(bool, each)) for each in zip(*((t.observed, t.mended, t.losses) for t in trials), strict=True)]
    mean = sum(trial.seconds for trial in trials) / len(trials)
    return f"| {fault} | {len(trials)} | {' | '.join(map(str, counts))} | {_most(trials)} | {mean:.1f} |"


def _most(trials: list[Trial]) -> str:
    """Return the most steps and the most seconds that a trial lost."""
    lost = [trial.lost for trial in trials if trial.lost]
    if not lost:
        return ""
    steps = max(each.steps for each in lost)
    return f"{steps} step{'s' * (steps != 1)}, {max(each.seconds for each in lost):.1f} s"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=DOCUMENT.parent, capture_output=True, text=True, check=True).stdout.strip()
