"""Splits that the source lacks, and folds of train: stratified, seeded, with equal texts in the same part.

NumPy's default generator shuffles the rows, so the result depends only on the rows, the shares and the seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.errors import DataError, ParameterError
from epigram.data.validation.row_index import DEV, NO_SPLIT, TEST, TRAIN, LabelCodes, SplitCodes
from epigram.data.validation.split_keys import NO_KEYS, SplitKeys, fold_of_groups
from epigram.text.dataset.text_matching import LOOSE
from epigram.text.dataset.validated_corpus import SPLITS

MIN_DEV_ROWS = 300  # a dev split with fewer rows is replaced by a cross-validation
MIN_TEST_ROWS, MAX_TEST_SHARE = 100, 0.2  # no test split if it would have fewer rows, and so many are a larger share
NO_FOLD = -1


def needs_folds(split: SplitCodes, dev: float) -> bool:
    """Return whether the source has no dev split, and the share `dev` of train has fewer than MIN_DEV_ROWS rows."""
    return not (split == DEV).any() and round(dev * int((split == TRAIN).sum())) < MIN_DEV_ROWS


def lacks_test(split: SplitCodes, test: float) -> bool:
    """Return whether the source has no test split, and its rows are too few for one.

    They are if the share `test` of train has fewer than MIN_TEST_ROWS rows, and that many rows are a share of more than
    MAX_TEST_SHARE.
    """
    rows = int((split == TRAIN).sum())
    return not (split == TEST).any() and round(test * rows) < MIN_TEST_ROWS and rows * MAX_TEST_SHARE < MIN_TEST_ROWS


def assign_folds(
    split: SplitCodes,
    labels: LabelCodes,
    repeated: pl.DataFrame,
    folds: int,
    seed: int,
    keys: SplitKeys = NO_KEYS,
) -> NDArray[np.int8]:
    """Return the fold of each training row, and NO_FOLD for other rows, (N,).

    Folds are stratified by label and of about the same size; rows with the same #loose are in one fold, and rows of the
    same group. Raises DataError if there are fewer different texts or groups than `folds`.
    """
    train = split == TRAIN
    if keys.group is not None:
        return _grouped_folds(train, labels, keys, folds, seed)
    copies = repeated_train_rows(repeated, train)
    groups = group_equal_texts(train, labels, copies, seed)
    if len(groups.row) < folds:
        raise DataError(
            f"train has {len(groups.row)} different texts; expected at least {folds}, one for each fold "
            "(params.yaml: validate.folds)"
        )
    fold, rows = np.full(len(split), NO_FOLD, np.int8), np.zeros(folds, np.int64)
    for stratum in np.unique(groups.stratum):
        here = np.flatnonzero(groups.stratum == stratum)
        of_stratum = np.zeros(folds, np.int64)
        for group in here[np.argsort(-groups.size[here].astype(np.int64), kind="stable")]:
            smallest = np.lexsort((rows, of_stratum))[0]
            fold[groups.row[group]] = smallest
            of_stratum[smallest] += groups.size[group]
            rows[smallest] += groups.size[group]
    fold[copies["row"].to_numpy()] = fold[copies["first"].to_numpy()]
    return fold


def _grouped_folds(
    train: NDArray[np.bool_], labels: LabelCodes, keys: SplitKeys, folds: int, seed: int
) -> NDArray[np.int8]:
    fold, places = np.full(len(train), NO_FOLD, np.int8), np.flatnonzero(train)
    group = np.asarray(keys.group)[places]
    fold[places] = fold_of_groups(group, _strata(labels, train)[labels.codes[places]], folds, seed)
    if (found := len(np.unique(fold[places]))) < folds:
        raise DataError(
            f"train has {found} different values of {keys.column!r}; expected at least {folds}, one for each fold "
            "(params.yaml: validate.folds)"
        )
    return fold


def describe_folds(rows: int, folds: int, seed: int, *, scored: bool, keys: SplitKeys = NO_KEYS) -> list[str]:
    """Return the notes that train has folds, and that they are `scored`, without a test split."""
    grouped = "" if keys.group is None else f", and so are rows with the same {keys.column!r}"
    chosen = (
        f"The source has no dev split, and a new one would have fewer than {MIN_DEV_ROWS} rows: systems are chosen by "
        f"the predictions for all {rows:,} training rows in a cross-validation of {folds} folds (seed {seed}); equal "
        f"texts are in one fold{grouped}. The final model of a system is trained on all of train."
    )
    replaced = (
        f"The source has no test split, and {MIN_TEST_ROWS} rows would be more than a fifth of it: the test scores are "
        "out of fold. Each fold is predicted by models that were trained on the other folds, with settings that the "
        "other folds choose. The score of the chosen system is less the expected optimism of the choice."
    )
    return [chosen, replaced] if scored else [chosen]


MIN_TEXTS = 3  # different texts that a class needs to be split into train, dev and test


@dataclass(frozen=True)
class Groups:
    """Groups of training rows with equal texts, in shuffled order; each array is (G,)."""

    row: NDArray[np.uint32]  # first row of the group
    size: NDArray[np.uint32]  # number of rows of the group
    stratum: NDArray[np.int32]
    pinned: NDArray[np.bool_]  # stays in train: the first text of each label, so that train keeps every label


def create_splits(
    split: SplitCodes,
    labels: LabelCodes,
    repeated: pl.DataFrame,
    *,
    dev: float | None,
    test: float | None,
    seed: int,
    keys: SplitKeys = NO_KEYS,
) -> tuple[SplitCodes, list[str]]:
    """Split dev and test off from train if they have no rows; return the new split of each row, and notes.

    `repeated` has the columns row and #loose of all rows that may share their text with another row. `dev` and `test`
    are shares of the rows of train; if one is None, it is not split off. Rows with the same #loose stay together. With
    `keys`, whole groups or the newest rows are split off. Otherwise a class with fewer than three different texts stays
    in train. Every class keeps at least one text in train.

    Raises ParameterError if the shares leave no rows to train, DataError if there are too few texts to split.
    """
    shares = {code: share for code, share in ((TEST, test), (DEV, dev)) if share and not (split == code).any()}
    if not shares:
        return split, []
    if sum(shares.values()) >= 1:
        raise ParameterError(
            f"params.yaml: validate.dev + validate.test is {sum(shares.values()):g}; expected less than 1"
        )
    if keys is NO_KEYS:
        result, how = _split_texts(split, labels, repeated, shares, seed), f"stratified by label (seed {seed})"
    else:
        result, how = _split_by_keys(split, labels, keys, shares, seed), keys.order(seed)
    return result, [
        f"The source has no {SPLITS[code]} split: {int((result == code).sum()):,} of {int((split == TRAIN).sum()):,} "
        f"training rows were moved to it, {how}; equal texts stay in one split."
        for code in shares
    ]


def _split_texts(
    split: SplitCodes, labels: LabelCodes, repeated: pl.DataFrame, shares: Mapping[int, float], seed: int
) -> SplitCodes:
    train = split == TRAIN
    copies = repeated_train_rows(repeated, train)
    groups = group_equal_texts(train, labels, copies, seed)
    result = split.copy()
    for code, chosen in _assign_groups(groups, shares).items():
        result[groups.row[chosen]] = code
    result[copies["row"].to_numpy()] = result[copies["first"].to_numpy()]
    for name in (SPLITS[code] for code in shares if not (result == code).any()):
        raise DataError(
            f"cannot create a {name} split: no class has {MIN_TEXTS} different texts; add rows or a {name} split"
        )
    return result


def _split_by_keys(
    split: SplitCodes, labels: LabelCodes, keys: SplitKeys, shares: Mapping[int, float], seed: int
) -> SplitCodes:
    """Move the newest rows, or whole groups, to the splits, so that no label is lost from train."""
    result, needed, total = split.copy(), labels.counts(split == TRAIN).keys(), int((split == TRAIN).sum())
    for code, share in shares.items():
        train, rows, lost = result == TRAIN, max(1, round(share * total)), ""
        places, after = np.flatnonzero(train), result
        for chosen in keys.held_out(places, _strata(labels, train)[labels.codes[places]], rows, seed):
            after = result.copy()
            after[chosen] = code
            lost = min(needed - labels.counts(after == TRAIN).keys(), default="")
            if not lost:
                break
        if lost or after is result:
            raise DataError(keys.refusal(SPLITS[code], lost))
        result = after
    return result


def limit_train(split: SplitCodes, labels: LabelCodes, rows: int, seed: int) -> SplitCodes:
    """Keep a stratified sample of `rows` rows in train, with every label; other training rows become NO_SPLIT.

    Raises ParameterError if there are more labels than `rows`.
    """
    shuffled = _shuffle(split == TRAIN, seed)
    firsts = _first_positions(labels, labels.first(shuffled), len(shuffled))
    if rows < len(firsts):
        raise ParameterError(
            f"params.yaml: validate.max_train_rows is {rows}; expected at least {len(firsts)}, one row for each label"
        )
    # The rows of each stratum get evenly spaced ranks in [0, 1), so the n lowest ranks have the same proportions.
    stratum, rank = _strata(labels, split == TRAIN)[labels.codes[shuffled]], np.empty(len(shuffled))
    for code in np.unique(stratum):
        here = np.flatnonzero(stratum == code)
        rank[here] = (np.arange(len(here)) + 0.5) / len(here)
    rank[list(firsts.values())] = -1.0
    sample = split.copy()
    sample[shuffled[np.argsort(rank, kind="stable")[rows:]]] = NO_SPLIT
    return sample


def _shuffle(chosen: NDArray[np.bool_], seed: int) -> NDArray[np.uint32]:
    """Return the rows with `chosen` (N,) true, shuffled."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(chosen).astype(np.uint32))


def _strata(labels: LabelCodes, train: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the stratum of each code: its label, or the rarest of its labels."""
    rows, numbers = labels.counts(train), dict[str, int]()
    rarest = [min(names, key=lambda name: (rows.get(name, 0), name), default="") for names in labels.lists]
    return np.array([numbers.setdefault(name, len(numbers)) for name in rarest], np.int32)


def _first_positions(labels: LabelCodes, first: NDArray[np.int64], none: int) -> dict[str, int]:
    """Return the first position of each label, from the `first` of each code; `none` marks codes that do not occur."""
    firsts: dict[str, int] = {}
    for names, position in zip(labels.lists, first.tolist(), strict=True):
        for name in names if position < none else ():
            firsts[name] = min(position, firsts.get(name, none))
    return firsts


def repeated_train_rows(repeated: pl.DataFrame, train: NDArray[np.bool_]) -> pl.DataFrame:
    """Return the repeated rows of train, each with the `first` row and the `size` of its group."""
    here = repeated.select("row", LOOSE).filter(pl.Series(train[repeated["row"].to_numpy()]))
    return here.select("row", first=pl.col("row").first().over(LOOSE), size=pl.len().over(LOOSE))


def group_equal_texts(train: NDArray[np.bool_], labels: LabelCodes, copies: pl.DataFrame, seed: int) -> Groups:
    """Return the groups of the rows of `train` (N,); `copies` is the result of `repeated_train_rows`."""
    later = copies.filter(pl.col("row") != pl.col("first"))["row"].to_numpy()
    sizes = np.ones(len(train), np.uint32)
    sizes[copies["first"].to_numpy()] = copies["size"].to_numpy()
    first_rows = train.copy()
    first_rows[later] = False
    row = _shuffle(first_rows, seed)
    stratum = _strata(labels, train)[labels.codes[row]]
    return Groups(row, sizes[row], stratum, _find_pinned(row, labels, copies))


def _find_pinned(row: NDArray[np.uint32], labels: LabelCodes, copies: pl.DataFrame) -> NDArray[np.bool_]:
    first = labels.first(row)
    position = np.zeros(int(row.max(initial=0)) + 1, np.uint32)
    position[row] = np.arange(len(row), dtype=np.uint32)
    np.minimum.at(first, labels.codes[copies["row"].to_numpy()], position[copies["first"].to_numpy()])
    pinned = np.zeros(len(row), np.bool_)
    pinned[list(_first_positions(labels, first, len(row)).values())] = True
    return pinned


def _assign_groups(groups: Groups, shares: Mapping[int, float]) -> dict[int, NDArray[np.int64]]:
    """Return the groups that leave train, by target split."""
    # A split takes groups in order until the middle of the next group exceeds its quota of rows.
    # Groups larger than the quota stay in train.
    taken: dict[int, list[NDArray[np.int64]]] = {code: [np.zeros(0, np.int64)] for code in shares}
    for stratum in np.unique(groups.stratum):
        here = np.flatnonzero(groups.stratum == stratum)
        rows = int(groups.size[here].sum())
        available = here[~groups.pinned[here]] if len(here) >= MIN_TEXTS else here[:0]
        for code, share in shares.items():
            quota = max(round(rows * share), 1)
            sizes = groups.size[available].astype(np.int64)
            fitting = sizes <= quota
            middle = np.cumsum(np.where(fitting, sizes, 0)) - sizes / 2
            chosen = fitting & (middle <= quota)
            taken[code].append(available[chosen])
            available = available[~chosen]
    return {code: np.concatenate(parts) for code, parts in taken.items()}
