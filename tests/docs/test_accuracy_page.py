"""docs/accuracy.md is current, and the committed cells are planned ones."""

from __future__ import annotations

from types import ModuleType

import pytest

from benchmarks import accuracy_cells, accuracy_resamples
from benchmarks.accuracy_page import PAGE, rendered


def test_the_page_is_the_one_that_the_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "run python -m benchmarks.accuracy --page"


@pytest.mark.parametrize("grid", [accuracy_cells, accuracy_resamples])
def test_every_committed_cell_is_planned_and_small(grid: ModuleType) -> None:
    names = {cell.name for cell in grid.planned()}
    for path in grid.FOLDER.glob("*.json"):
        assert path.stem in names, f"{path} is no planned cell: delete it"
        assert path.stat().st_size < 100_000
