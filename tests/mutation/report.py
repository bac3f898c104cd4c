"""Results as a table in docs/development/quality.md, and the survivors as a list."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.mutation.mutants import ROOT, handwritten, sample
from tests.mutation.runner import results

DOCUMENT = ROOT / "docs" / "development" / "quality.md"
EQUIVALENT = Path(__file__).parent / "equivalent.yaml"
START, END = "<!-- mutants: start -->", "<!-- mutants: end -->"
STATUSES = ("killed", "survived", "equivalent", "not covered", "error")
CAUGHT = {"killed", "equivalent"}
TITLES = {"handwritten": "Hand-written mutants", "sample": "Sample of generated mutants"}

Outcome = dict[str, Any]


def equivalents() -> dict[str, str]:
    """Return the mutants that no test can kill, with the reasons."""
    return yaml.safe_load(EQUIVALENT.read_text()) or {}


def current() -> list[Outcome]:
    """Return the last result of every mutant that exists now, with equivalent ones marked as such."""
    known, equal = results(), equivalents()
    found = [known[mutant.id] for mutant in [*handwritten(), *sample()] if mutant.id in known]
    return [each | {"status": "equivalent"} if each["id"] in equal and not _killed(each) else each for each in found]


def _killed(outcome: Outcome) -> bool:
    return bool(outcome["status"] == "killed")


def survivors() -> str:
    """Return the mutants that are not killed, as a Markdown table."""
    lines = ["| mutant | line | status | covering tests | effect |", "| --- | --- | --- | --- | --- |"]
    for each in current():
        if each["status"] not in CAUGHT:
            place, effect = f"{each['file']}:{each['line']}", " ".join(each["effect"].split()).replace("|", "\\|")
            lines.append(f"| {each['id']} | {place} | {each['status']} | {each['tests']} | {effect} |")
    return "\n".join(lines)


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the number of mutants per package and status, as Markdown; "killed %" excludes equivalent mutants."""
    counts: dict[str, Counter[str]] = {}
    for each in outcomes:
        for row in (each["package"], "all"):
            counts.setdefault(row, Counter())[each["status"]] += 1
    lines = [f"| package | mutants | {' | '.join(STATUSES)} | killed % |", "| --- |" + " ---: |" * (len(STATUSES) + 2)]
    for package in sorted(counts, key=lambda name: (name == "all", name)):
        row = counts[package]
        share = 100 * row["killed"] / max(row.total() - row["equivalent"], 1)
        lines.append(f"| {package} | {row.total()} | {' | '.join(str(row[each]) for each in STATUSES)} | {share:.1f} |")
    return "\n".join(lines)


def write() -> None:
    """Replace the part of docs/development/quality.md between the markers."""
    commit = ["git", "log", "-1", "--format=%h"]
    version = subprocess.run(commit, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    outcomes, count = current(), len(handwritten()) + len(sample())
    parts = [f"Commit {version}, {datetime.now(UTC):%Y-%m-%d}. {len(outcomes)} of {count} mutants have a result."]
    for origin, title in TITLES.items():
        parts += [f"### {title}", table(each for each in outcomes if each["origin"] == origin)]
    missed = [f"* `{each['id']}`: {each['status']}" for each in outcomes if each["status"] not in CAUGHT]
    parts += ["### Mutants that are not killed", "\n".join(missed) or "None."]
    equal = [f"* `{name}`: {reason}" for name, reason in equivalents().items()]
    parts += ["### Equivalent mutants", "\n".join(equal) or "None."]
    before, _, rest = DOCUMENT.read_text().partition(START)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(before + "\n\n".join([START, *parts, END]) + after)
