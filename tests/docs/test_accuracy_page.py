"""docs/accuracy.md and the table of experience are current, and the committed cells are planned ones."""

from __future__ import annotations

from types import ModuleType

import pytest

from benchmarks import accuracy_cells, accuracy_experience, accuracy_resamples
from benchmarks.accuracy_grid import grid_of
from benchmarks.accuracy_page import PAGE, rendered
from epigram.fitting.experience import TABLE


def test_the_page_is_the_one_that_the_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "run python -m benchmarks.accuracy --page"


def test_the_table_of_experience_is_the_one_that_the_command_writes() -> None:
    found = accuracy_experience.written(grid_of(accuracy_cells.filled(accuracy_cells.FOLDER)))
    assert TABLE.read_text(encoding="utf-8") == found, "run python -m benchmarks.accuracy --page"


@pytest.mark.parametrize("grid", [accuracy_cells, accuracy_resamples])
def test_every_committed_cell_is_planned_and_small(grid: ModuleType) -> None:
    names = {cell.name for cell in grid.planned()}
    for path in grid.FOLDER.glob("*.json"):
        assert path.stem in names, f"{path} is no planned cell: delete it"
        assert path.stat().st_size < 100_000
