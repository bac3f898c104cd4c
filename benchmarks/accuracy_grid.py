"""Filled cells of the accuracy grid by set, rows and tool, and the differences between two tools on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy_cells import Cell, Found
from benchmarks.accuracy_data import SETS
from benchmarks.accuracy_statistics import Draws, Right, draws


@dataclass(frozen=True)
class Filled:
    """The cells of one set, number of rows and tool, by sample: those with scores and those of failed tools."""

    scored: dict[int, Found]
    failed: int

    def right(self, samples: Sequence[int]) -> Right:
        """Return which test rows are right after training on each of the samples, (S, N)."""
        return np.stack([bits(self.scored[sample]) for sample in samples])


def bits(found: Found) -> NDArray[np.bool_]:
    """Return which test rows of a cell are right, (N,)."""
    packed = np.frombuffer(bytes.fromhex(found["right"]), np.uint8)
    return np.unpackbits(packed, count=found["test_rows"]).astype(np.bool_)


Grid = Mapping[tuple[str, int, str], Filled]  # by set, rows and tool


def grid_of(found: Mapping[Cell, Found]) -> Grid:
    """Return the filled cells by set, rows and tool."""
    grid: dict[tuple[str, int, str], Filled] = {}
    for cell, content in found.items():
        part = grid.get((cell.set, cell.rows, cell.tool), Filled({}, 0))
        failed = "failed" in content
        scored = part.scored if failed else {**part.scored, cell.sample: content}
        grid[cell.set, cell.rows, cell.tool] = Filled(scored, part.failed + failed)
    return grid


def paired(grid: Grid, rows: int, tool: str, base: str) -> dict[str, Draws]:
    """Return the differences of a tool less `base`, by set, on the samples and the same data that both have."""
    found = {}
    for name in SETS:
        one, other = (grid.get((name, rows, each), Filled({}, 0)) for each in (tool, base))
        both = [n for n in sorted(one.scored) if n in other.scored and _same(one.scored[n], other.scored[n])]
        if both:
            found[name] = draws(name, one.right(both), other.right(both))
    return found


def _same(one: Found, other: Found) -> bool:
    return bool(one["data"] == other["data"])
