"""Columns that decide the splits: no group of rows is in two splits or folds, or the newest rows are held out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.data.sources.source import SPLIT_KEYS, Source
from epigram.data.times import parse_times
from epigram.data.validation.row_index import NO_SPLIT, Rows, SplitCodes
from epigram.text.dataset.text_matching import LOOSE

if TYPE_CHECKING:
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

Ints = NDArray[np.integer[Any]]
STRATIFIED_GROUPS = 5_000  # groups at most that are stratified, which takes a second; more are alike without it


@dataclass(frozen=True)
class SplitKeys:
    """The number of each row's group, or its time, (N,); equal texts are in one group, and have their latest time.

    `column` is the name of the column. A row without a value is a group of its own, or has the time -inf.
    """

    column: str = ""
    group: Ints | None = None
    time: NDArray[np.float64] | None = None

    def held_out(self, places: Ints, stratum: Ints, rows: int, seed: int) -> list[Ints]:
        """Return sets of `places` (N,) that can be held out together, about `rows` of them; the best set first."""
        if self.group is not None:
            chosen = _held_out_groups(self.group[places], stratum, rows, seed)
        else:
            chosen = _newest(np.asarray(self.time)[places], rows)
        whole = [places[each] for each in chosen if 0 < len(each) < len(places)]
        return sorted(whole, key=lambda each: abs(len(each) - rows))

    def order(self, seed: int) -> str:
        """Return which rows are held out, for the report."""
        column = shown(repr(self.column))
        if self.time is None:
            return f"whole groups of the same {column} (seed {seed})"
        missing = int(np.isneginf(self.time).sum())
        return f"the newest by {column}" + (f" ({missing:,} rows without a value stay in train)" if missing else "")

    def refusal(self, name: str, lost: str) -> str:
        """Return the error for a split `name` that cannot be created, because train has `lost` a label, or is empty."""
        if lost:
            reason = f"the label {shown(repr(lost))} would have no rows in train"
        else:
            reason = f"all rows of train have {'one time' if self.group is None else 'one value'}"
        return f"cannot create a {name} split by {shown(repr(self.column))}: {reason}; add rows or a {name} split"


NO_KEYS = SplitKeys()


def read_keys(rows: Rows, source: Source, split: SplitCodes, repeated: pl.DataFrame) -> SplitKeys:
    """Return the keys that the source names, if any; `repeated` has the rows that may share their text with another.

    Raises DataError for a group in two of the source's own splits, and for a time that cannot be read.
    """
    name = next((name for name in SPLIT_KEYS if name in rows.schema), None)
    if name is None:
        return NO_KEYS
    found, column = rows.columns(name, "file", "line"), str(source.read.get(name, name))
    if name == "group":
        return SplitKeys(column, group=_read_groups(found, column, split, repeated))
    return SplitKeys(column, time=_read_times(found, column, repeated))


def _read_groups(found: pl.DataFrame, column: str, split: SplitCodes, repeated: pl.DataFrame) -> Ints:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    value, row = pl.col("group"), pl.col("row")
    used = found.with_columns(split=split).filter(value.is_not_null(), pl.col("split") != NO_SPLIT)
    mixed = used.filter(pl.col("split").n_unique().over("group") > 1)
    if mixed.height:
        raise DataError(
            f"{mixed['file'][0]}:{mixed['line'][0]}: the {column} {shown(repr(mixed['group'][0]))} is in several "
            f"splits, as {mixed['group'].n_unique():,} are; use either the column of the splits or group"
        )
    first = (
        found.with_row_index("row")
        .select(pl.when(value.is_null()).then(row).otherwise(row.first().over("group")))
        .to_series()
    )
    copies = repeated.select("row", first=pl.col("row").first().over(LOOSE))
    starts = np.concatenate([np.arange(len(first)), copies["row"]])
    stops = np.concatenate([first, copies["first"]])
    linked = coo_array((np.ones(len(starts), np.bool_), (starts, stops)), shape=(len(first), len(first)))
    group: Ints = connected_components(linked, directed=False)[1]
    return group


def _read_times(found: pl.DataFrame, column: str, repeated: pl.DataFrame) -> NDArray[np.float64]:
    parsed = parse_times(found["time"])
    wrong = found.filter(parsed.is_null() & found["time"].is_not_null())
    if wrong.height:
        raise DataError(
            f"{wrong['file'][0]}:{wrong['line'][0]}: the {column} is {shown(repr(wrong['time'][0]))}; expected dates "
            "such as 2024-01-31 or 2024-01-31 09:30:00 in all rows, or numbers in all rows"
        )
    time = parsed.fill_null(float("-inf")).to_numpy().copy()
    copies = repeated.with_columns(time=time[repeated["row"].to_numpy()])
    time[copies["row"].to_numpy()] = copies.select(pl.col("time").max().over(LOOSE)).to_series()
    return time


def _held_out_groups(group: Ints, stratum: Ints, rows: int, seed: int) -> list[Ints]:
    parts = max(2, round(len(group) / rows))
    fold = fold_of_groups(group, stratum, parts, seed)
    return [np.flatnonzero(fold == part) for part in range(parts)]


def _newest(time: NDArray[np.float64], rows: int) -> list[Ints]:
    edge = np.sort(time)[-rows]  # rows of equal time stay together
    return [np.flatnonzero(each) for each in (time > edge, time >= edge)]


def fold_of_groups(group: Ints, stratum: Ints, folds: int, seed: int) -> Ints:
    """Return the fold of each row, (N,): whole groups, stratified if they are few; a fold may stay empty."""
    fold, count = np.zeros(len(group), np.int32), len(np.unique(group))
    if count == 1:
        return fold
    splitter = _splitter(min(folds, count), stratum, count, seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        for number, (_, held_out) in enumerate(splitter.split(group, stratum, group)):
            fold[held_out] = number
    return fold


def _splitter(folds: int, stratum: Ints, groups: int, seed: int) -> GroupKFold | StratifiedGroupKFold:
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    stratified = groups <= STRATIFIED_GROUPS and np.bincount(stratum).max() >= folds
    return (StratifiedGroupKFold if stratified else GroupKFold)(folds, shuffle=True, random_state=seed)
