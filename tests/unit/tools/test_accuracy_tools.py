"""Tools of the accuracy grid that need no environment of their own, on texts that are easy to tell apart."""

from __future__ import annotations

import sys

import polars as pl
import pytest

from benchmarks.accuracy_catalogue import TOOLS
from benchmarks.accuracy_cells import Cell
from benchmarks.accuracy_data import Corpus
from benchmarks.accuracy_measure import measure

FOOD = ["面条很好吃", "米饭太硬了", "汤有点咸", "烤鱼新鲜好吃", "早餐的面包不错"]
CARS = ["汽车开得很快", "轮胎坏了要换", "发动机声音大", "汽车座位舒服", "刹车不太灵"]
TRAIN = pl.DataFrame(
    [
        (f"第{n}天，{text}", label)
        for n in range(6)
        for texts, label in ((FOOD, "food"), (CARS, "cars"))
        for text in texts
    ],
    ["text", "label"],
    orient="row",
)
TEST = pl.DataFrame({"text": ["今天的面条和汤很好吃", "这辆汽车的轮胎坏了"], "label": ["food", "cars"]})


@pytest.mark.parametrize("name", ["tfidf_svm", "sklearn_grid"])
def test_a_tool_learns_from_all_rows_and_predicts_the_others(name: str) -> None:
    cell = Cell("easy", 60, 0, name, 1)  # a budget in which the search has time for one candidate
    found = measure(cell, TOOLS[name], Corpus("zh", TRAIN, TEST), sys.executable, final=True)
    assert "failed" not in found, found
    assert (found["accuracy"], found["macro_f1"], found["train_rows"]) == (100, 100, 60)
    assert found["fit_seconds"] > 0 and "scikit-learn" in found["versions"]
