"""Data sets of the accuracy grid: samples of training rows, and test rows that are the same for every tool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.corpora import change, download, stage

if TYPE_CHECKING:
    import polars as pl

TEST_SHARE = 0.3  # of a data set without a published split: its default test of a tenth would be too small to compare
VALIDATE = {"test": TEST_SHARE, "dev": 0.01, "min_per_class": 2}  # so small a dev is not cut: all other rows are train
DEV_SHARE = 0.2  # of a sample, held out of it where test is not scored


@dataclass(frozen=True)
class DataSet:
    """Source of a data set in data/sources, its language, and its numbers of training and of test rows."""

    source: str
    language: str
    train: int
    test: int


# Training rows are those of the published split. Test rows whose text is also in train are left out.
SETS = {
    "mr": DataSet("mr", "en", 7_464, 3_198),
    "sst2": DataSet("sst2", "en", 67_349, 1_820),
    "newsgroups": DataSet("newsgroups_4", "en", 2_257, 1_502),
    "ced": DataSet("ced", "zh", 2_371, 1_016),
    "chnsenticorp": DataSet("chnsenticorp", "zh", 9_600, 869),
    "cold": DataSet("cold", "zh", 25_726, 5_284),
    "thucnews": DataSet("thucnews_116k", "zh", 116_365, 10_000),
}


@dataclass(frozen=True)
class Corpus:
    """Rows of a data set, with the columns text and label."""

    language: str
    train: pl.DataFrame
    test: pl.DataFrame


def load(name: str, cache: Path) -> Corpus:
    """Return a data set, validated once in the folder `cache`.

    Raises RuntimeError if a stage fails or if the rows are not those of SETS.
    """
    import polars as pl

    about, folder = SETS[name], cache / name
    validated = folder / "data/validated"
    if not validated.exists():
        folder.mkdir(parents=True, exist_ok=True)
        change(folder, validate=VALIDATE)
        download(about.source, folder / "data/raw")
        stage(folder, "validate")
    train, test = (pl.read_parquet(validated / f"{split}.parquet") for split in ("train", "test"))
    test = test.filter(~pl.col("in_train"))
    if (train.height, test.height) != (about.train, about.test):
        raise RuntimeError(
            f"{folder}: {train.height} training rows and {test.height} test rows; expected {about.train} and "
            f"{about.test}: delete the folder, or correct SETS in benchmarks/accuracy_data.py"
        )
    return Corpus(about.language, train.select("text", "label"), test.select("text", "label"))


def disjoint_samples(name: str, rows: int) -> int:
    """Return the number of disjoint samples of `rows` rows; 1 if the data set has fewer rows."""
    return max(1, SETS[name].train // rows)


def sample(corpus: Corpus, rows: int, number: int) -> pl.DataFrame:
    """Return sample `number` of at most `rows` training rows; samples repeat where there are no more disjoint ones."""
    order = np.random.default_rng(0).permutation(corpus.train.height)
    start = number % max(1, len(order) // rows) * rows
    return corpus.train[order[start : start + rows]]


def split_off_dev(train: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the training rows without the held-out ones, and the held-out ones; rows of a sample are in random order.

    Rows with the text of a held-out row are in neither part.
    """
    import polars as pl

    dev = train.head(round(DEV_SHARE * train.height))
    rest = train.slice(dev.height)
    return rest.filter(~pl.col("text").is_in(dev["text"].implode())), dev
