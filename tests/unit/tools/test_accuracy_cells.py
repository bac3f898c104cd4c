"""The accuracy grid: which cells are planned, their order, and how they are filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import accuracy
from benchmarks.accuracy_catalogue import BASE
from benchmarks.accuracy_cells import Cell
from benchmarks.timing import SkippedError


def cell(**changes: Any) -> Cell:
    return Cell(**{"set": "mr", "rows": 500, "sample": 0, "tool": BASE, "budget": 120} | changes)


class Tools:
    """Measures cells: a failing tool, a tool that is not installed, and others that take a minute each."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        self.said: list[str] = []
        self.now = 0.0

    def measure(self, cell: Cell) -> dict[str, Any]:
        if cell.tool == "setfit":
            raise SkippedError("no wheel")
        self.measured.append(f"{cell.tool} {cell.sample}")
        self.now += 60
        answer = {"failed": "exit code 1: no memory left"} if cell.tool == "trainer" else {"accuracy": 50.0}
        return {**answer, "seconds": 60.0}

    def fill(self, cells: list[Cell], folder: Path, **changes: Any) -> list[str]:
        self.measured, self.said = [], []
        options = {"final": True, "clock": lambda: self.now, "say": self.said.append} | changes
        accuracy.fill(cells, self.measure, folder, **options)
        return self.measured


CELLS = [cell(tool=tool, sample=sample) for sample in (0, 1) for tool in ("trainer", "setfit", BASE)]


def stored(folder: Path, each: Cell) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{each.name}.json").read_text())
    return found


def test_a_failing_tool_is_recorded_and_does_not_stop_the_grid(tmp_path: Path) -> None:
    assert Tools().fill(CELLS, tmp_path) == ["trainer 0", f"{BASE} 0", "trainer 1", f"{BASE} 1"]
    assert stored(tmp_path, CELLS[0])["failed"] == "exit code 1: no memory left"
    assert "accuracy" not in stored(tmp_path, CELLS[0])


def test_filled_cells_are_skipped_those_of_failed_tools_too(tmp_path: Path) -> None:
    tools = Tools()
    tools.fill(CELLS[:3], tmp_path)
    assert tools.fill(CELLS, tmp_path) == ["trainer 1", f"{BASE} 1"]


def test_scorings_of_test_are_counted(tmp_path: Path) -> None:
    tools = Tools()
    for again in (False, False, True):
        tools.fill(CELLS[:3], tmp_path, again=again)
    assert stored(tmp_path, CELLS[2])["test_scorings"] == 2
    assert stored(tmp_path, CELLS[0])["test_scorings"] == 0  # it failed: nothing was scored
    tools.fill(CELLS[:3], tmp_path / "dev", final=False)
    assert stored(tmp_path / "dev", CELLS[2])["test_scorings"] == 0
