"""Tables of docs/accuracy.md: tools against sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.accuracy_catalogue import TOOLS
from benchmarks.accuracy_data import SETS
from benchmarks.accuracy_grid import Filled, Grid, paired
from benchmarks.accuracy_statistics import Difference, difference, mean_draws
from epigram.evaluation.comparison.significance import holm

ALPHA = 0.05
BUSY = 0.2  # processors used by others above which a time is marked
LATE = 1.05  # share of the budget above which a time is marked
EMPTY, FAILED = "–", "failed"
MEANS = {"English": [name for name, about in SETS.items() if about.language == "en"], "all": list(SETS)}
COLUMNS = [*MEANS["English"], "English", *(name for name in SETS if name not in MEANS["English"]), "all"]
Row = Mapping[str, str]  # by column; an absent column is empty


def table(rows: Mapping[str, Row]) -> str:
    """Return a Markdown table with a line for each tool."""
    lines = [["tool", *COLUMNS], ["---"] * (len(COLUMNS) + 1)]
    lines += [[f"`{tool}`", *(row.get(column, EMPTY) for column in COLUMNS)] for tool, row in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tools_of(grid: Grid, rows: int) -> list[str]:
    """Return the tools with a filled cell of so many training rows."""
    return [tool for tool in TOOLS if any((name, rows, tool) in grid for name in SETS)]


def accuracies(grid: Grid, rows: int, tool: str) -> Row:
    """Return the mean accuracy on each set, with the number of samples, and the means over sets."""
    means, shown = dict[str, float](), dict[str, str]()
    for name, filled in _sets(grid, rows, tool).items():
        if filled.scored:
            means[name] = float(np.mean([found["accuracy"] for found in filled.scored.values()]))
        shown[name] = f"{means[name]:.1f} ({len(filled.scored)})" if name in means else FAILED
    return shown | {
        column: f"{np.mean([means[name] for name in names]):.1f}"
        for column, names in MEANS.items()
        if means.keys() >= set(names)
    }


def differences(grid: Grid, rows: int, tool: str, base: str) -> dict[str, Difference]:
    """Return the differences of a tool less `base` on each set, and their means over sets if all sets have one."""
    found = paired(grid, rows, tool, base)
    whole = {
        column: mean_draws({name: found[name] for name in names})
        for column, names in MEANS.items()
        if found.keys() >= set(names)
    }
    return {name: difference(drawn) for name, drawn in {**found, **whole}.items()}


def verdicts(found: Mapping[str, Difference]) -> Row:
    """Return each difference with its interval; ties are named, and * marks wins after Holm's correction over sets."""
    names = [name for name in found if name in SETS]
    corrected = dict(zip(names, holm(np.array([found[name].p for name in names])), strict=True))
    return {name: _verdict(one, corrected.get(name, one.p)) for name, one in found.items()}


def _verdict(one: Difference, p: float) -> str:
    said = f"{one.mean:+.1f} [{one.low:.1f}, {one.high:.1f}]"
    if one.verdict == "tie":
        return f"tie {said}"
    return f"{said} *" if one.verdict == "ahead" and p < ALPHA else said


def detectable(found: Mapping[str, Difference]) -> Row:
    """Return the difference that each test could have detected."""
    return {name: f"{one.detectable:.1f}" for name, one in found.items()}


def costs(grid: Grid, rows: int, tool: str) -> Row:
    """Return the mean seconds of the fit and megabytes on each set; marks are those of the page."""
    return {name: _cost(filled) for name, filled in _sets(grid, rows, tool).items() if filled.scored}


def _cost(filled: Filled) -> str:
    found = list(filled.scored.values())
    seconds, peak = (np.mean([one[key] for one in found]) for key in ("fit_seconds", "peak_mb"))
    busy = "†" if any(one["other_processors"] > BUSY for one in found) else ""
    late = "‡" if any(one["fit_seconds"] > LATE * one["budget"] for one in found) else ""
    return f"{seconds:.0f} s{busy}{late}, {peak:,.0f} MB"


def _sets(grid: Grid, rows: int, tool: str) -> dict[str, Filled]:
    return {name: grid[name, rows, tool] for name in SETS if (name, rows, tool) in grid}


def by_tool(tools: list[str], row: Callable[[str], Row]) -> str:
    """Return the table of a function of the tool."""
    return table({tool: row(tool) for tool in tools})
