"""Random splits of the accuracy grid: which rows are in them, and the corrected interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import accuracy, accuracy_cells
from benchmarks.accuracy_catalogue import BASE, OURS
from benchmarks.accuracy_cells import Cell
from benchmarks.accuracy_data import Corpus
from benchmarks.accuracy_resamples import compared, split_again
from benchmarks.accuracy_statistics import corrected


def corpus(rows: int = 100) -> Corpus:
    """Return a corpus of `rows` texts; text 0 is in both of its parts."""
    found = pl.DataFrame({"text": [f"text {n}" for n in range(rows)], "label": ["yes"] * rows})
    return Corpus("en", found.head(rows - 20), pl.concat([found.tail(20), found.head(1)]))


def fill(folder: Path, gaps: list[float], name: str = "ced", **changes: object) -> None:
    """Write the cells of a split for each of the `gaps`, with a third as many test rows as training rows."""
    for split, gap in enumerate(gaps):
        for tool, accuracy_of_tool in ((BASE, 80.0), (OURS, 80.0 + gap)):
            found = {"accuracy": accuracy_of_tool, "data": f"{split}", "test_rows": 100, "train_rows": 300}
            accuracy_cells.write(Cell(name, 4_000, split, tool, 300), found | changes, folder)


def test_a_split_has_each_text_in_one_part_and_another_one_draws_other_texts() -> None:
    first, again, second = (split_again(corpus(), split) for split in (0, 0, 1))
    assert (first.train.height, first.test.height) == (70, 30)
    assert len({*first.train["text"], *first.test["text"]}) == 100
    assert first.test.equals(again.test)
    assert set(first.test["text"]) != set(second.test["text"])
    assert set(first.test["text"]) & {f"text {n}" for n in range(80)}  # rows of the other split's train too


def test_the_variance_of_splits_that_share_rows_is_larger_than_that_of_independent_ones() -> None:
    found = corrected([1.0, 3.0], ratio=0.5)
    error = np.sqrt(2) * np.sqrt(1 / 2 + 0.5)  # 1 without the correction
    assert found.mean == 2.0
    assert (found.low, found.high) == pytest.approx((2 - 12.7062 * error, 2 + 12.7062 * error), rel=1e-4)
    assert found.p == pytest.approx(1 - 2 / np.pi * np.arctan(2 / error))  # Student's distribution with one degree
    assert corrected([0.0, 0.0], ratio=0.5).p == 1.0
    assert corrected([2.0, 2.0], ratio=0.5).p == 0.0


def test_only_splits_of_both_tools_on_the_same_rows_are_compared(tmp_path: Path) -> None:
    fill(tmp_path, [1.0, 3.0])
    fill(tmp_path, [5.0], name="mr")
    assert {name: (splits, one.mean) for name, (splits, one) in compared(tmp_path).items()} == {"ced": (2, 2.0)}
    assert compared(tmp_path)["ced"][1].high == pytest.approx(corrected([1.0, 3.0], 1 / 3).high)
    path = tmp_path / f"ced-4000-1-{OURS}-300s.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"data": "1"', '"data": "2"'), encoding="utf-8")
    assert compared(tmp_path) == {}


@pytest.mark.parametrize("resampled", [False, True])
def test_a_cell_is_measured_on_the_rows_of_its_own_split(
    resampled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Corpus] = []
    monkeypatch.setattr(accuracy, "load", lambda *_: corpus())
    monkeypatch.setattr(accuracy, "missing", lambda _: "")
    monkeypatch.setattr(accuracy, "python_of", lambda *_: "python")
    monkeypatch.setattr(accuracy, "measure", lambda cell, tool, rows, *_, **__: seen.append(rows))
    measured = accuracy.measurer(tmp_path, final=True, resampled=resampled)
    for split in (1, 2):
        measured(Cell("ced", 4_000, split, BASE, 300))
    wanted = [split_again(corpus(), split) if resampled else corpus() for split in (1, 2)]
    assert [rows.test["text"].to_list() for rows in seen] == [rows.test["text"].to_list() for rows in wanted]
