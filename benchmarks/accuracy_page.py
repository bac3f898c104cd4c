"""docs/accuracy.md and the table of experience, from the accuracy grid: python -m benchmarks.accuracy --page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import accuracy_cells as cells
from benchmarks import accuracy_experience as experience
from benchmarks.accuracy_catalogue import BASE, OURS, SEARCHED, TOOLS
from benchmarks.accuracy_cells import BUDGETS, MOST
from benchmarks.accuracy_grid import Grid, grid_of
from benchmarks.accuracy_resamples import FOLDER as RESAMPLES
from benchmarks.accuracy_resamples import compared
from benchmarks.accuracy_statistics import Difference
from benchmarks.accuracy_tables import (
    BUSY,
    accuracies,
    by_tool,
    costs,
    detectable,
    differences,
    table,
    tools_of,
    verdicts,
)
from benchmarks.timing import ROOT

PAGE = ROOT / "docs/accuracy.md"
NONE = "No cell is filled yet.\n"
HEAD = """\
# Accuracy

This page compares epigram with other tools on seven data sets. Each tool gets the same few training rows, the same
budget and two threads, chooses its settings within the budget, and is scored on the same test rows. A cell that is
measured again, for example with a later version, is scored again, and the page counts all scorings. Every training
is a *cell* (set, rows, sample, tool, budget) with a file in `benchmarks/results/accuracy`, from which
`python -m benchmarks.accuracy --page` writes this page. To fill more cells, in order of their worth:

    EPIGRAM_MIRROR=FOLDER python -m benchmarks.accuracy --final --limit-minutes 60

A filled cell is skipped, so the command continues where it stopped. Without `--final` it scores no test rows, but a
fifth of each sample, which is held out of train, and writes the cells into the folder `dev`. Each peer has a virtual
environment of its own in `.accuracy_cache`, which is made when it is first used. `--help` lists all options.

* Samples of 100 and 500 rows are random and disjoint; 4,000 rows are at most that many, with three seeds.
* MR and CED have no published split: 30% of their rows are test. Test rows whose text is also in train are left out.
  The last section has ten random splits of them, which `--resamples` fills.
* The budget includes the start of the process and the final fit, but not the predictions of the test rows.
* MiniLM is an English encoder: tools with it run on English sets only.
* Intervals are 95% bootstrap intervals of the paired difference, over test rows and samples. If the interval contains
  0, the difference is a tie. With one sample, the interval does not contain the chance of the sample.

"""
ACCURACY = "Test accuracy (%), mean over samples, and in brackets the number of samples:\n"
DIFFERENCE = (
    "Accuracy less that of `{base}`, in points; * marks a win after Holm's correction over the sets of a tool:\n"
)
DETECTABLE = "Difference to `{base}` in points that each comparison could have detected, with a power of 80%:\n"
COST = f"""\
Time until the end of the fit, and peak memory of the whole process, means over samples. † marks times while other
processes used more than {BUSY} processors, and ‡ times more than 5% above the budget:
"""
SPLITS = f"""\
## Random splits of data without a published one, {MOST:,} training rows, {BUDGETS[MOST]} seconds

Accuracy of `{SEARCHED}` less that of `{BASE}` in points, mean over random splits, with the interval of the corrected
resampled t-test ([Nadeau and Bengio](https://doi.org/10.1023/A:1024068626366), 2003). Each split draws 30% of all rows
as test, and trains on at most {MOST:,} of the others:

| set | splits | difference [95%] | p |
| --- | --- | --- | --- |
"""


def rendered(folder: Path = cells.FOLDER, resamples: Path = RESAMPLES) -> str:
    """Return the page."""
    plan, found = cells.planned(), cells.filled(folder)
    failed = sum("failed" in content for content in found.values())
    scorings = [content["test_scorings"] for content in found.values()]
    said = f"{len(found):,} of {len(plan):,} cells are filled; the tool failed in {failed:,} of them. "
    said += f"Test rows were scored {sum(scorings):,} times, at most {max(scorings, default=0)} times in one cell.\n"
    grid = grid_of(found)
    sections = [section(grid, rows) for rows in BUDGETS if tools_of(grid, rows)]
    if known := experience.section(grid):
        sections.append(known)
    if splits := compared(resamples):
        sections.append(resampled(splits))
    return "\n".join([HEAD + said + machines(found), listed(), *(sections or [NONE])])


def machines(found: Mapping[cells.Cell, Mapping[str, Any]]) -> str:
    """Return a line for each machine, with its tools: in the same time, a tool does more work on a faster one."""
    tools: dict[str, set[str]] = {}
    for cell, content in found.items():
        if "machine" in content:
            tools.setdefault(content["machine"], set()).add(f"`{cell.tool}`")
    return "".join(f"Measured on {name}: {', '.join(sorted(tools[name]))}.\n" for name in sorted(tools))


def listed() -> str:
    """Return the list of the tools."""
    return "".join(f"* `{tool.name}`: {tool.about}\n" for tool in TOOLS.values())


def section(grid: Grid, rows: int) -> str:
    """Return the tables of one number of training rows."""
    tools = tools_of(grid, rows)
    parts = [f"## {rows:,} training rows, {BUDGETS[rows]} seconds\n"]
    parts += [ACCURACY, by_tool(tools, lambda tool: accuracies(grid, rows, tool))]
    for base in (BASE, OURS):
        gaps = {tool: differences(grid, rows, tool, base) for tool in tools if tool != base}
        compared = {tool: found for tool, found in gaps.items() if found}
        if compared:
            parts += [DIFFERENCE.format(base=base), table({tool: verdicts(gap) for tool, gap in compared.items()})]
            shown = {tool: detectable(gap) for tool, gap in compared.items()}
            parts += [DETECTABLE.format(base=base), table(shown)]
    return "\n".join([*parts, COST, by_tool(tools, lambda tool: costs(grid, rows, tool))])


def resampled(found: Mapping[str, tuple[int, Difference]]) -> str:
    """Return the section of the random splits."""
    lines = [
        f"| {name} | {splits} | {one.mean:+.1f} [{one.low:.1f}, {one.high:.1f}] | {one.p:.2g} |\n"
        for name, (splits, one) in found.items()
    ]
    return SPLITS + "".join(lines)
