"""What the rules across rows need of each row: 13 bytes, however long its text is.

Only rows that share the hash of their text with another one are looked at again, text by text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pithy.corpus.keys import LOOSE, SPLITS, loose_text
from pithy.corpus.rows import Rows

TRAIN, DEV, TEST = range(3)  # places in SPLITS
OUT = 3  # of a row in no split
STEP = 1 << 20  # rows that are looked at together

Split = NDArray[np.uint8]  # (N,) of each row


class Values:
    """The label of each row, or its list of labels, as a number: that of its first appearance."""

    def __init__(self, rows: int) -> None:
        self.codes = np.zeros(rows, np.int32)  # (N,)
        self.lists: list[tuple[str, ...]] = []  # of each code
        self._known: dict[tuple[str, ...], int] = {}

    def add(self, start: int, column: pl.Series) -> None:
        """Set the codes of the rows from `start` on."""
        groups = pl.DataFrame({"value": column}).with_row_index().group_by("value", maintain_order=True).agg("index")
        codes = pl.Series([self._code(value) for value in groups["value"].to_list()], dtype=pl.Int32)
        ordered = groups.select("index", code=codes).explode("index").sort("index")["code"]
        self.codes[start : start + len(column)] = ordered.to_numpy()

    def _code(self, value: str | Sequence[str | None] | None) -> int:
        labels = (value,) if isinstance(value, str) else tuple(label for label in value or () if label is not None)
        if labels not in self._known:
            self._known[labels] = len(self.lists)
            self.lists.append(labels)
        return self._known[labels]

    def counts(self, chosen: NDArray[np.bool_]) -> dict[str, int]:
        """How often each label stands in the rows for which `chosen` (N,) is true."""
        rows = np.zeros(len(self.lists), np.int64)
        for here in _steps(len(chosen)):
            rows += np.bincount(self.codes[here][chosen[here]], minlength=len(rows))
        found: dict[str, int] = {}
        for labels, number in zip(self.lists, rows.tolist(), strict=True):
            for label in labels if number else ():
                found[label] = found.get(label, 0) + number
        return found

    def first(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """The place in `rows` of the first row of each code, len(rows) where there is none."""
        first = np.full(len(self.lists), len(rows), np.int64)
        for here in reversed(list(_steps(len(rows)))):
            codes = self.codes[rows[here]]
            first[codes[::-1]] = np.arange(here.start, here.start + len(codes))[::-1]  # the last to be set stays
        return first


@dataclass(frozen=True)
class Index:
    """The rows of a corpus without their texts."""

    split: Split  # as it was read
    labels: Values
    token_labels: Values | None  # where tokens have labels
    repeated: pl.DataFrame  # every row, with `#loose`, whose loose text, or the hash of it, is another row's too


def repeated(rows: Rows, hashes: NDArray[np.uint64]) -> pl.DataFrame:
    """The rows whose hash is not their own alone."""
    ordered = np.sort(hashes)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    chosen = np.zeros(len(hashes), np.bool_)
    if len(shared):
        for here in _steps(len(hashes)):
            place = np.searchsorted(shared, hashes[here])
            chosen[here] = shared[np.minimum(place, len(shared) - 1)] == hashes[here]
    return rows.where(chosen).with_columns(loose_text().alias(LOOSE))


def split_codes(column: pl.Series) -> Split:
    """Places in SPLITS; OUT for any other name."""
    return column.replace_strict(SPLITS, range(len(SPLITS)), default=OUT, return_dtype=pl.UInt8).to_numpy()


def names_of(split: Split) -> pl.Series:
    """The names of `split`, null for OUT."""
    return pl.Series("split", split).replace_strict(range(len(SPLITS)), SPLITS, default=None, return_dtype=pl.String)


def _steps(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + STEP, rows)) for start in range(0, rows, STEP))
