"""Cells of the accuracy grid: which are planned, in which order, and their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy_catalogue import TOOLS
from benchmarks.accuracy_data import SETS, disjoint_samples
from benchmarks.results import RESULTS

FOLDER = RESULTS / "accuracy"
BUDGETS = {500: 120, 100: 120, 4_000: 300}  # seconds by training rows
SAMPLES = {500: 10, 100: 10, 4_000: 3}
MOST = 4_000  # training rows; samples of so many may repeat, with another seed
Found = dict[str, Any]  # content of a cell's file


@dataclass(frozen=True)
class Cell:
    """One training: a tool on one sample of a set, with a budget in seconds."""

    set: str
    rows: int
    sample: int
    tool: str
    budget: int

    @property
    def name(self) -> str:
        """Name of the cell's file, without its suffix."""
        return f"{self.set}-{self.rows}-{self.sample}-{self.tool}-{self.budget}s"

    @property
    def worth(self) -> tuple[bool, int, bool]:
        """Key of the order: few rows before many, earlier samples before later ones, 500 rows before 100."""
        return self.rows == MOST, self.sample, self.rows != 500


def planned() -> list[Cell]:
    """Return all cells in order of their worth; the cells of one sample of a set are together."""
    return sorted(_cells(), key=lambda cell: cell.worth)


def _cells() -> Iterator[Cell]:
    for name, about in SETS.items():
        for rows, budget in BUDGETS.items():
            count = SAMPLES[rows] if rows == MOST else min(SAMPLES[rows], disjoint_samples(name, rows))
            for sample in range(count):
                for tool in TOOLS.values():
                    if about.language in tool.languages and rows <= tool.max_rows:
                        yield Cell(name, rows, sample, tool.name, tool.budget or budget)


def path_of(cell: Cell, folder: Path) -> Path:
    """Return the path of a cell's file."""
    return folder / f"{cell.name}.json"


def read(cell: Cell, folder: Path) -> Found | None:
    """Return the content of a cell's file; None if it is not filled."""
    path = path_of(cell, folder)
    found: Found | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return found


def filled(folder: Path) -> dict[Cell, Found]:
    """Return the content of the planned cells that are filled."""
    return {cell: found for cell in planned() if (found := read(cell, folder)) is not None}


def write(cell: Cell, found: Found, folder: Path) -> None:
    """Write a cell's file, so that an interrupted write leaves no file."""
    path = path_of(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({**asdict(cell), **found}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
