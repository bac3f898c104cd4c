"""Table of experience, from which a search takes its order: python -m benchmarks.accuracy --page writes it.

A row has a language, training rows and labels, and the mean accuracy of each system of epigram on the cells (set and
sample) that all its systems have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from benchmarks.accuracy_catalogue import TOOLS
from benchmarks.accuracy_cells import BUDGETS
from benchmarks.accuracy_data import SETS
from benchmarks.accuracy_grid import Grid
from benchmarks.timing import ROOT
from epigram.data.sources.source import load_source
from epigram.fitting.experience import TABLE

SYSTEMS = {tool.name: tool.arguments[0] for tool in TOOLS.values() if tool.module == "epigram_system"}
ABOUT = """\
## Experience

Mean accuracy of epigram's own systems with their default settings, by which `epigram.fit`, `epigram run --search` and
`epigram add` order them for data with the same language and a similar number of rows and labels. A row counts only the
cells, sets and samples, that all its systems have:

| language | rows | labels | cells | mean accuracy |
| --- | --- | --- | --- | --- |
"""


def experience(grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table with two or more systems."""
    for language, labels in sorted({(about.language, labels_of(name)) for name, about in SETS.items()}):
        sets = [name for name, about in SETS.items() if (about.language, labels_of(name)) == (language, labels)]
        for rows in sorted(BUDGETS):
            found = {system: _scores(grid, sets, rows, tool) for tool, system in SYSTEMS.items()}
            found = {system: scores for system, scores in found.items() if scores}
            cells = set.intersection(*map(set, found.values())) if len(found) > 1 else set()
            if cells:
                means = {
                    name: round(sum(scores[each] for each in cells) / len(cells), 1) for name, scores in found.items()
                }
                key = {"language": language, "rows": rows, "labels": labels, "cells": len(cells)}
                yield key | {"accuracy": dict(sorted(means.items(), key=lambda item: -item[1]))}


def _scores(grid: Grid, sets: list[str], rows: int, tool: str) -> dict[tuple[str, int], float]:
    """Return the accuracy of a tool by set and sample."""
    filled = {name: grid[name, rows, tool] for name in sets if (name, rows, tool) in grid}
    return {(name, n): found["accuracy"] for name, each in filled.items() for n, found in each.scored.items()}


@cache
def labels_of(name: str) -> int:
    """Return the number of labels of a set."""
    return len(load_source(SETS[name].source, ROOT / "data/sources").labels)


def written(grid: Grid) -> str:
    """Return the file of the table, with a line for each row."""
    return "[\n" + ",\n".join(map(json.dumps, experience(grid))) + "\n]\n"


def write(grid: Grid) -> None:
    """Write the file of the table."""
    TABLE.write_text(written(grid), encoding="utf-8")


def section(grid: Grid) -> str:
    """Return the section of the page; empty without a row."""
    lines = [
        f"| {row['language']} | {row['rows']:,} | {row['labels']} | {row['cells']} | "
        f"{', '.join(f'`{name}` {score:.1f}' for name, score in row['accuracy'].items())} |\n"
        for row in experience(grid)
    ]
    return ABOUT + "".join(lines) if lines else ""
