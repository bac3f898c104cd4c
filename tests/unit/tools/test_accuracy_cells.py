"""The accuracy grid: which cells are planned, their order, and how they are filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import accuracy, accuracy_cells
from benchmarks.accuracy_catalogue import BASE, TOOLS
from benchmarks.accuracy_cells import Cell, planned
from benchmarks.accuracy_data import SETS
from benchmarks.timing import SkippedError

ENGLISH_ONLY = {"setfit", "trainer", "autogluon_multimodal"}
PLAN = planned()


def cell(**changes: Any) -> Cell:
    return Cell(**{"set": "mr", "rows": 500, "sample": 0, "tool": BASE, "budget": 120} | changes)


def test_a_cell_is_planned_for_each_set_size_sample_and_tool_that_can_run() -> None:
    assert len(set(PLAN)) == len(PLAN) == 1372
    assert {c.tool for c in PLAN if c.set == "ced"} == TOOLS.keys() - ENGLISH_ONLY
    assert {c.tool for c in PLAN if c.set == "mr" and c.rows == 4_000} == TOOLS.keys() - {"setfit"}
    samples = {(name, rows): len({c.sample for c in PLAN if (c.set, c.rows) == (name, rows)}) for name, rows in (
        ("newsgroups", 500), ("ced", 500), ("ced", 100), ("ced", 4_000), ("thucnews", 500),
    )}  # fmt: skip
    assert list(samples.values()) == [4, 4, 10, 3, 10]  # 2,257 and 2,371 training rows


def test_the_order_is_that_of_the_worth() -> None:
    blocks = list(dict.fromkeys((c.rows, c.sample) for c in PLAN))
    few = [(rows, sample) for sample in range(10) for rows in (500, 100)]
    assert blocks == [*few, (4_000, 0), (4_000, 1), (4_000, 2)]
    first = PLAN[: 3 * len(TOOLS) + 4 * (len(TOOLS) - len(ENGLISH_ONLY))]
    assert {(c.rows, c.sample) for c in first} == {(500, 0)}
    assert list(dict.fromkeys(c.set for c in first)) == list(SETS)


def test_the_budget_is_that_of_the_rows_or_of_the_tool() -> None:
    assert {(c.rows, c.budget) for c in PLAN if c.tool == BASE} == {(500, 120), (100, 120), (4_000, 300)}
    assert {c.budget for c in PLAN if c.tool == "epigram_fast"} == {60}


def test_the_file_of_a_cell_has_its_name(tmp_path: Path) -> None:
    accuracy_cells.write(cell(), {"accuracy": 50.0}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"mr-500-0-{BASE}-120s.json"]
    assert accuracy_cells.read(cell(), tmp_path) == {**vars(cell()), "accuracy": 50.0}
    assert accuracy_cells.read(cell(sample=1), tmp_path) is None


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


def test_a_tool_that_is_not_installed_has_no_cell_and_is_named_once(tmp_path: Path) -> None:
    tools = Tools()
    tools.fill(CELLS, tmp_path)
    assert not list(tmp_path.glob("*setfit*"))
    assert [line for line in tools.said if "setfit" in line] == ["setfit skipped: no wheel"]


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


@pytest.mark.parametrize(("seconds", "count"), [(119, 0), (120, 1), (179, 1), (180, 2), (1e9, 4)])
def test_no_cell_starts_whose_budget_exceeds_the_time_that_is_left(tmp_path: Path, seconds: float, count: int) -> None:
    tools = Tools()
    assert len(tools.fill(CELLS, tmp_path, seconds=seconds)) == count
    assert any(line.startswith("stopped before") for line in tools.said) == (count < 4)


def test_the_options_choose_cells_in_the_planned_order() -> None:
    asked = accuracy.parsed(["--sets", "ced,mr", "--rows", "100", "--samples", "2", "--tools", f"trainer,{BASE}"])
    assert [(c.set, c.sample, c.tool) for c in accuracy.chosen(asked)] == [
        (name, number, tool) for number in (0, 1) for name, tool in (("mr", BASE), ("mr", "trainer"), ("ced", BASE))
    ]
    assert accuracy.chosen(accuracy.parsed([])) == PLAN
