"""Rows of a validated corpus, read in batches so that memory use does not depend on the number of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.config_types import has_type
from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import read_json, write_json
from epigram.core.sampling import choose_rows
from epigram.text.dataset.language import Language, as_language

CORPUS = "corpus.json"
SPLITS = ("train", "dev", "test")
BATCH = 50_000
READ_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)  # a damaged file raises either


@dataclass(frozen=True, kw_only=True)
class ValidatedCorpus:
    """Content of corpus.json, and the folder that it was read from, which also has the rows."""

    folder: Path = Path()
    name: str
    language: Language
    task: str  # single or multi
    labels: list[str]
    token_labels: list[str]  # default label first; empty if tokens are not labelled
    tokens_only: bool  # text labels are inferred from token labels
    text_columns: list[str] = field(default_factory=lambda: ["text"])  # columns of the table that made up the text
    join: str = " "  # separator of these columns
    rows: dict[str, int] = field(default_factory=dict)  # number of rows of each split
    label_names: list[str] = field(default_factory=list)  # names in the texts' language; empty: the labels
    notes: list[str] = field(default_factory=list)  # what validation changed, as sentences
    dev_in_train: int = 0  # dev rows whose text is also in train
    test_in_train: int = 0
    machine_labels: dict[str, int] = field(default_factory=dict)  # number of rows of each split that a machine labelled
    folds: int = 0  # folds of train; if there are any, dev has no rows
    slices: list[str] = field(default_factory=list)  # columns by whose values the scores are reported too
    hierarchy: str = ""  # separator of levels in the labels, whose scores are reported too

    @classmethod
    def read(cls, folder: Path) -> ValidatedCorpus:
        """Read corpus.json. Raises InputMissingError or DataError."""
        content = read_json(folder / CORPUS)
        hints = {name: hint for name, hint in get_type_hints(cls).items() if name != "folder"}
        for name, hint in hints.items():
            if not isinstance(content, dict) or not has_type(content.get(name), str if name == "language" else hint):
                raise DataError(f"{folder / CORPUS} has no valid {name}: delete {folder} and run dvc repro")
        values = {name: content[name] for name in hints}
        return cls(folder=folder, **values | {"language": as_language(content["language"])})

    @property
    def content(self) -> dict[str, Any]:
        """Content of corpus.json."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    def write(self, folder: Path) -> None:
        """Write corpus.json into `folder`, atomically."""
        write_json(folder / CORPUS, self.content)

    def digest(self) -> str:
        """Return the SHA-256 of the names of the labels, and of number, text and labels of every row of all splits."""
        found = hashlib.sha256(repr(self.labels).encode())
        for split in self.splits:
            for batch in self.batches(split, "row", "text", self.label_column):
                found.update("".join(f"{split} {row!r}\n" for row in batch.iter_rows()).encode())
        return found.hexdigest()

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that a view has."""
        return SPLITS

    def fold(self, number: int) -> ValidatedCorpus:
        """Return the corpus with one fold of train as dev, the other folds as train, and no test."""
        return _Fold(number=number, **vars(self) | {"folds": 0})

    @property
    def label_column(self) -> str:
        """Name of the column with the labels of the texts."""
        return "labels" if self.task == "multi" else "label"

    def batches(self, split: str, *columns: str, size: int = BATCH) -> Iterator[pl.DataFrame]:
        """Yield frames of at most `size` rows of a split, in order. Raises InputMissingError or DataError."""
        rows = self._scan(split).select(columns)
        for start in range(0, self.count(split), size):
            yield self._collect(rows.slice(start, size), split)

    def frame(self, split: str, *columns: str, most: int | None = None) -> pl.DataFrame:
        """Return `columns` of a split, of all rows or of at most `most` random ones, always the same, in order."""
        if most is None or (count := self.count(split)) <= most:
            return self._collect(self._scan(split).select(columns), split)
        chosen = np.zeros(count, np.bool_)
        chosen[choose_rows(count, most)] = True
        parts, start = [], 0
        for batch in self.batches(split, *columns):
            parts.append(batch.filter(pl.Series(chosen[start : start + batch.height])))
            start += batch.height
        return pl.concat(parts)

    def frame_of(self, split: str, rows: NDArray[np.integer[Any]], *columns: str) -> pl.DataFrame:
        """Return `columns` of the rows of a split with the numbers `rows`, in their order."""
        frame = self.frame(split, "row", *columns)
        return pl.DataFrame({"row": rows}).join(frame, on="row", how="left", maintain_order="left")

    def slice_values(self, split: str, rows: NDArray[np.integer[Any]]) -> dict[str, list[str]]:
        """Return the values of the columns `slices` in the given rows, as text; of dates, the months.

        The names of a list that is written as JSON have commas between them.
        """
        if not self.slices:
            return {}
        found = self.frame_of(split, rows, *self.slices).select(pl.col(self.slices).cast(pl.String).fill_null(""))
        listed = found.with_columns(
            pl.all().str.replace_all(r'^\["|"\]$', "").str.replace_all('", "', ", ", literal=True)
        )
        return {column.name: _months(column).to_list() for column in listed}

    def texts(self, split: str) -> Iterator[Sequence[str]]:
        """Return an iterator over the texts of a split, in batches."""
        return (batch["text"].to_list() for batch in self.batches(split, "text"))

    def count(self, split: str) -> int:
        """Return the number of rows of a split."""
        return int(self._collect(self._scan(split).select(pl.len()), split).item())

    def label_ids(self, labels: pl.Series, names: list[str]) -> NDArray[np.int64]:
        """Return the index of each label in `names`. Raises DataError for a label that is not in `names`."""
        ids = labels.replace_strict(names, list(range(len(names))), default=None, return_dtype=pl.Int64)
        if ids.null_count():
            unknown = labels.filter(ids.is_null())[0]
            raise DataError(f"{self.folder}: label {unknown!r} is not in {CORPUS}: run dvc repro validate")
        return ids.to_numpy()

    def label_array(self, batch: pl.DataFrame) -> NDArray[Any]:
        """Return the labels of the rows `batch`: (N,) int64, or (N, C) uint8 if a text may have several labels."""
        if self.task != "multi":
            return self.label_ids(batch["label"], self.labels)
        lines = batch.select(pl.int_range(pl.len()).alias("line"), "labels").explode("labels").drop_nulls("labels")
        matrix = np.zeros((batch.height, len(self.labels)), dtype=np.uint8)
        matrix[lines["line"].to_numpy(), self.label_ids(lines["labels"], self.labels)] = 1
        return matrix

    def sample(self, split: str, texts: int, characters: int) -> list[str]:
        """Return at most `texts` texts of a split, evenly spaced, with at most `characters` characters in total.

        Texts longer than a tenth of `characters` are skipped.
        """
        step, size = max(1, -(-self.count(split) // texts)), pl.col("text").str.len_chars()
        spaced = self._scan(split).select("text").gather_every(step).filter(size <= characters // 10)
        selected = spaced.filter(size.cum_sum() <= characters)
        return self._collect(selected, split)["text"].to_list()

    def _collect(self, rows: pl.LazyFrame, split: str) -> pl.DataFrame:
        try:
            return rows.collect()
        except READ_ERRORS as error:
            raise DataError(
                f"{self.folder / split}.parquet cannot be read: the file is damaged; run dvc repro validate"
            ) from error

    def _scan(self, split: str) -> pl.LazyFrame:
        path = self.folder / f"{split}.parquet"
        if not path.is_file():
            raise InputMissingError(f"{path} is missing: run dvc repro validate")
        return pl.scan_parquet(path, glob=False)


def _months(values: pl.Series) -> pl.Series:
    """Return the months of dates that begin with the year; other values as they are."""
    parts = values.str.extract_groups(r"^(\d{4})[-/.年](\d{1,2})[-/.月]").struct
    months = parts.field("1") + "-" + parts.field("2").str.zfill(2)
    return months.fill_null("") if (months.is_not_null() | (values == "")).all() else values


@dataclass(frozen=True, kw_only=True)
class _Fold(ValidatedCorpus):
    """Corpus whose dev is one fold of train."""

    number: int

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that a view has."""
        return SPLITS[:2]

    def _scan(self, split: str) -> pl.LazyFrame:
        rows, held_out = super()._scan("train"), pl.col("fold") == self.number
        return rows.filter(~held_out) if split == "train" else rows.filter(held_out).with_columns(in_train=False)
