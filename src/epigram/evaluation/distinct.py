"""Distinct rows of a table, found column by column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.evaluation.arrays import Ints

MAX_CODE = 2**62  # largest number of codes that two columns together may have


def distinct_rows(columns: Iterable[NDArray[Any]]) -> tuple[Ints, Ints]:
    """Return the first row of each distinct combination of values, and the number of its rows, (U,) each.

    The combinations of the `columns`, (N,) each, are in ascending order, as those of `np.unique` with `axis=0`, which
    sorts whole rows. Here a row is one number, which is many times faster.
    """
    codes, size = np.zeros(1, np.int64), 1
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        if size * len(values) > MAX_CODE:
            known, codes = np.unique(codes, return_inverse=True)
            size = len(known)
        codes, size = codes * len(values) + places, size * len(values)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return first, counts
