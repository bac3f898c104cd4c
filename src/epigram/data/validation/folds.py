"""Folds of train: parts for a cross-validation, which replaces new dev and test splits that would have few rows."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.errors import DataError
from epigram.data.validation.row_index import DEV, TEST, TRAIN, LabelCodes, SplitCodes
from epigram.data.validation.splits import group_equal_texts, repeated_train_rows

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
    split: SplitCodes, labels: LabelCodes, repeated: pl.DataFrame, folds: int, seed: int
) -> NDArray[np.int8]:
    """Return the fold of each training row, and NO_FOLD for other rows, (N,).

    Folds are stratified by label and of about the same size; rows with the same #loose are in one fold. Raises
    DataError if there are fewer different texts than `folds`.
    """
    train = split == TRAIN
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


def describe_folds(rows: int, folds: int, seed: int, *, scored: bool) -> list[str]:
    """Return the notes that train has folds, and that they are `scored`, without a test split."""
    chosen = (
        f"The source has no dev split, and a new one would have fewer than {MIN_DEV_ROWS} rows: systems are chosen by "
        f"the predictions for all {rows:,} training rows in a cross-validation of {folds} folds (seed {seed}); equal "
        "texts are in one fold. The final model of a system is trained on all of train."
    )
    replaced = (
        f"The source has no test split, and {MIN_TEST_ROWS} rows would be more than a fifth of it: the test scores are "
        "out of fold. Each fold is predicted by models that were trained on the other folds, with settings that the "
        "other folds choose. The score of the chosen system is less the expected optimism of the choice."
    )
    return [chosen, replaced] if scored else [chosen]
