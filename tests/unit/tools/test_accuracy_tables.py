"""docs/accuracy.md, written from cells with known scores."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import accuracy_cells, accuracy_page
from benchmarks.accuracy_catalogue import BASE, TOOLS
from benchmarks.accuracy_cells import Cell
from benchmarks.accuracy_data import SETS
from benchmarks.accuracy_statistics import Difference
from benchmarks.accuracy_tables import verdicts

ROWS = 400


def fill(folder: Path, tool: str, right: float, name: str = "mr", sample: int = 0, **changes: Any) -> None:
    """Write a cell of 500 rows, right on the first `right` percent of the test rows."""
    cell = Cell(name, 500, sample, tool, TOOLS[tool].budget or 120)
    correct = np.arange(ROWS) < ROWS * right / 100
    found = {
        "accuracy": right,
        "right": np.packbits(correct).tobytes().hex(),
        "test_rows": ROWS,
        "data": f"{name}{sample}",
        "seconds": 80.0,
        "fit_seconds": 60.0,
        "peak_mb": 1500,
        "other_processors": 0.0,
        "test_scorings": 1,
    }
    accuracy_cells.write(cell, found | changes, folder)


def tables(page: str) -> list[dict[str, dict[str, str]]]:
    """Return the cells of each table by tool and column; empty cells are left out."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        head, _, *lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        rows = {line[0].strip("`"): dict(zip(head[1:], line[1:], strict=True)) for line in lines}
        found.append({tool: {name: cell for name, cell in row.items() if cell != "–"} for tool, row in rows.items()})
    return found


def test_samples_that_only_one_tool_has_or_of_other_data_are_not_compared(tmp_path: Path) -> None:
    for sample, right in enumerate((50.0, 90.0, 90.0)):
        fill(tmp_path, BASE, right, sample=sample)
    fill(tmp_path, "sklearn_grid", 60.0)
    fill(tmp_path, "sklearn_grid", 10.0, sample=2, data="other")
    _, gaps, _, _ = tables(accuracy_page.rendered(tmp_path, tmp_path / "resamples"))
    assert gaps["sklearn_grid"]["mr"].startswith("+10.0 [")


def test_means_over_sets_are_of_all_sets_of_a_language(tmp_path: Path) -> None:
    for name, about in SETS.items():
        fill(tmp_path, BASE, 50.0, name)
        if about.language == "en":
            fill(tmp_path, "trainer", {"mr": 60.0, "sst2": 70.0, "newsgroups": 80.0}[name], name)
        if name != "ced":
            fill(tmp_path, "sklearn_grid", 55.0, name)
    accuracies, gaps, _, _ = tables(accuracy_page.rendered(tmp_path, tmp_path / "resamples"))
    assert accuracies[BASE]["all"] == "50.0"
    assert accuracies["trainer"]["English"] == "70.0"
    assert "all" not in accuracies["trainer"].keys() | accuracies["sklearn_grid"].keys()
    assert gaps["trainer"]["English"].startswith("+20.0 [")


def test_a_win_is_marked_after_holms_correction_over_the_sets() -> None:
    found = {name: Difference(5.0, 1.0, 9.0, p, 1.0) for name, p in (("mr", 0.04), ("sst2", 0.01), ("cold", 0.02))}
    assert {name: said.endswith("*") for name, said in verdicts(found).items()} == {
        "mr": True, "sst2": True, "cold": True,  # 0.04, 0.03 and 0.04
    }  # fmt: skip
    found["ced"] = Difference(5.0, 1.0, 9.0, 0.03, 1.0)  # then 0.06, 0.04, 0.06 and 0.06
    assert [name for name, said in verdicts(found).items() if said.endswith("*")] == ["sst2"]
