"""Ten random splits of each data set that has no published one: epigram's search against TF-IDF with a linear SVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import accuracy_cells as cells
from benchmarks.accuracy_catalogue import BASE, SEARCHED
from benchmarks.accuracy_cells import BUDGETS, MOST, Cell, Found
from benchmarks.accuracy_data import TEST_SHARE, Corpus
from benchmarks.accuracy_statistics import Difference, corrected
from benchmarks.results import RESULTS

if TYPE_CHECKING:
    import polars as pl

FOLDER = RESULTS / "resamples"
SETS = ("ced", "mr")  # without a published split
SPLITS = 10


def planned() -> list[Cell]:
    """Return the cells; those of one split are together, and the sample of a cell is its split."""
    splits = ((name, split) for name in SETS for split in range(SPLITS))
    return [_cell(name, split, tool) for name, split in splits for tool in (BASE, SEARCHED)]


def split_again(corpus: Corpus, split: int) -> Corpus:
    """Return the rows of a data set, each text once, with a random share of TEST_SHARE as test."""
    import polars as pl

    rows: pl.DataFrame = pl.concat([corpus.train, corpus.test]).unique("text", keep="first", maintain_order=True)
    rows = rows[np.random.default_rng([1, split]).permutation(rows.height)]
    test = round(TEST_SHARE * rows.height)
    return Corpus(corpus.language, rows.slice(test), rows.head(test))


def compared(folder: Path = FOLDER) -> dict[str, tuple[int, Difference]]:
    """Return by set how many splits both tools have, at least two, and the difference of their accuracies."""
    pairs = {name: list(filter(None, (_pair(name, split, folder) for split in range(SPLITS)))) for name in SETS}
    return {name: (len(found), _difference(found)) for name, found in pairs.items() if len(found) > 1}


def _cell(name: str, split: int, tool: str) -> Cell:
    return Cell(name, MOST, split, tool, BUDGETS[MOST])


def _pair(name: str, split: int, folder: Path) -> tuple[Found, Found] | None:
    """Return the cells of both tools on a split, if both have scores on the same data."""
    base, ours = (cells.read(_cell(name, split, tool), folder) for tool in (BASE, SEARCHED))
    if base is None or ours is None or "failed" in base or "failed" in ours or base["data"] != ours["data"]:
        return None
    return base, ours


def _difference(pairs: list[tuple[Found, Found]]) -> Difference:
    ratio = np.mean([ours["test_rows"] / ours["train_rows"] for _, ours in pairs])
    return corrected([ours["accuracy"] - base["accuracy"] for base, ours in pairs], float(ratio))
