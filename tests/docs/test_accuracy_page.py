"""docs/accuracy.md is current, and the committed cells are planned ones."""

from __future__ import annotations

from benchmarks import accuracy_cells
from benchmarks.accuracy_page import PAGE, rendered


def test_the_page_is_the_one_that_the_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "run python -m benchmarks.accuracy --page"


def test_every_committed_cell_is_planned_and_small() -> None:
    names = {cell.name for cell in accuracy_cells.planned()}
    for path in accuracy_cells.FOLDER.glob("*.json"):
        assert path.stem in names, f"{path} is no planned cell: delete it"
        assert path.stat().st_size < 100_000
