"""Creation of splits that the source lacks: stratified, seeded, and with equal texts in the same split.

NumPy's default generator shuffles the rows, so the result depends only on the rows, the shares and the seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.errors import DataError, ParameterError
from epigram.data.validation.row_index import DEV, OUT, TEST, TRAIN, Split, Values
from epigram.data.validation.text_matching import LOOSE, SPLITS

ENOUGH = 3  # different texts that a class needs to be split into train, dev and test


@dataclass(frozen=True)
class Groups:
    """Groups of training rows with equal texts, in shuffled order; each array is (G,)."""

    row: NDArray[np.uint32]  # first row of the group
    size: NDArray[np.uint32]  # number of rows of the group
    stratum: NDArray[np.int32]
    pinned: NDArray[np.bool_]  # stays in train: the first text of each label, so that train keeps every label


def cut(
    split: Split, labels: Values, repeated: pl.DataFrame, *, dev: float, test: float, seed: int
) -> tuple[Split, list[str]]:
    """Split dev and test off from train if they have no rows; return the new split of each row, and notes.

    `repeated` has the columns row and #loose of all rows that may share their text with another row. `dev` and `test`
    are shares of the rows of train. Rows with the same #loose stay together. A class with fewer than three different
    texts stays in train, and every class keeps at least one text in train.

    Raises ParameterError if the shares leave no rows to train, DataError if there are too few texts to split.
    """
    wanted = {place: share for place, share in ((TEST, test), (DEV, dev)) if not (split == place).any()}
    if not wanted:
        return split, []
    if sum(wanted.values()) >= 1:
        raise ParameterError(f"params.yaml: validate.dev + validate.test was {dev + test:g}: their sum must be below 1")
    train = split == TRAIN
    copies = _copies(repeated, train)
    groups = _groups(train, labels, copies, seed)
    done = split.copy()
    for place, chosen in _assign(groups, wanted).items():
        done[groups.row[chosen]] = place
    done[copies["row"].to_numpy()] = done[copies["first"].to_numpy()]
    sizes = {SPLITS[place]: int((done == place).sum()) for place in wanted}
    for name, size in sizes.items():
        if not size:
            raise DataError(
                f"no {name} split can be cut: no class has {ENOUGH} different texts; add rows or a {name} split"
            )
    return done, [_note(name, size, int(train.sum()), seed) for name, size in sizes.items()]


def _note(split: str, rows: int, of: int, seed: int) -> str:
    return (
        f"The source has no {split} split: {rows:,} of {of:,} training rows were cut off for it, stratified by label "
        f"(seed {seed}), equal texts kept together."
    )


def cap(split: Split, labels: Values, rows: int, seed: int) -> Split:
    """Keep a stratified sample of `rows` rows in train, with every label; other training rows become OUT.

    Raises ParameterError if there are more labels than `rows`.
    """
    shuffled = _shuffled(split == TRAIN, seed)
    firsts = _firsts(labels, labels.first(shuffled), len(shuffled))
    if rows < len(firsts):
        raise ParameterError(
            f"params.yaml: validate.max_train_rows was {rows}: the {len(firsts)} labels need a row each"
        )
    # The rows of each stratum get evenly spaced places in [0, 1), so the n lowest places have the same proportions.
    stratum, place = _strata(labels, split == TRAIN)[labels.codes[shuffled]], np.empty(len(shuffled))
    for code in np.unique(stratum):
        here = np.flatnonzero(stratum == code)
        place[here] = (np.arange(len(here)) + 0.5) / len(here)
    place[list(firsts.values())] = -1.0
    sample = split.copy()
    sample[shuffled[np.argsort(place, kind="stable")[rows:]]] = OUT
    return sample


def _shuffled(chosen: NDArray[np.bool_], seed: int) -> NDArray[np.uint32]:
    """Return the rows with `chosen` (N,) true, shuffled."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(chosen).astype(np.uint32))


def _strata(labels: Values, train: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the stratum of each code: its label, or the rarest of its labels."""
    rows, numbers = labels.counts(train), dict[str, int]()
    rarest = [min(names, key=lambda name: (rows.get(name, 0), name), default="") for names in labels.lists]
    return np.array([numbers.setdefault(name, len(numbers)) for name in rarest], np.int32)


def _firsts(labels: Values, first: NDArray[np.int64], none: int) -> dict[str, int]:
    """Return the first place of each label, from the `first` of each code; `none` marks codes that do not occur."""
    firsts: dict[str, int] = {}
    for names, place in zip(labels.lists, first.tolist(), strict=True):
        for name in names if place < none else ():
            firsts[name] = min(place, firsts.get(name, none))
    return firsts


def _copies(repeated: pl.DataFrame, train: NDArray[np.bool_]) -> pl.DataFrame:
    """Return the repeated rows of train, each with the `first` row and the `size` of its group."""
    here = repeated.select("row", LOOSE).filter(pl.Series(train[repeated["row"].to_numpy()]))
    return here.select("row", first=pl.col("row").first().over(LOOSE), size=pl.len().over(LOOSE))


def _groups(train: NDArray[np.bool_], labels: Values, copies: pl.DataFrame, seed: int) -> Groups:
    later = copies.filter(pl.col("row") != pl.col("first"))["row"].to_numpy()
    sizes = np.ones(len(train), np.uint32)
    sizes[copies["first"].to_numpy()] = copies["size"].to_numpy()
    leads = train.copy()
    leads[later] = False
    row = _shuffled(leads, seed)
    stratum = _strata(labels, train)[labels.codes[row]]
    return Groups(row, sizes[row], stratum, _pinned(row, labels, copies))


def _pinned(row: NDArray[np.uint32], labels: Values, copies: pl.DataFrame) -> NDArray[np.bool_]:
    first = labels.first(row)
    place = np.zeros(int(row.max(initial=0)) + 1, np.uint32)
    place[row] = np.arange(len(row), dtype=np.uint32)
    np.minimum.at(first, labels.codes[copies["row"].to_numpy()], place[copies["first"].to_numpy()])
    pinned = np.zeros(len(row), np.bool_)
    pinned[list(_firsts(labels, first, len(row)).values())] = True
    return pinned


def _assign(groups: Groups, shares: Mapping[int, float]) -> dict[int, NDArray[np.int64]]:
    """Return the groups that leave train, by target split."""
    # A split takes groups in order until the middle of the next group exceeds its quota of rows.
    # Groups larger than the quota stay in train.
    taken: dict[int, list[NDArray[np.int64]]] = {place: [np.zeros(0, np.int64)] for place in shares}
    for stratum in np.unique(groups.stratum):
        here = np.flatnonzero(groups.stratum == stratum)
        rows = int(groups.size[here].sum())
        free = here[~groups.pinned[here]] if len(here) >= ENOUGH else here[:0]
        for place, share in shares.items():
            quota = max(round(rows * share), 1)
            sizes = groups.size[free].astype(np.int64)
            fitting = sizes <= quota
            middle = np.cumsum(np.where(fitting, sizes, 0)) - sizes / 2
            chosen = fitting & (middle <= quota)
            taken[place].append(free[chosen])
            free = free[~chosen]
    return {place: np.concatenate(parts) for place, parts in taken.items()}
