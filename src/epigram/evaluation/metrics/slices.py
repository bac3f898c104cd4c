"""Scores of parts of the test set: by text length, by whether a text is also in train, and by kept columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from epigram.core.limits import MAX_CLASSES
from epigram.evaluation.arrays import Bools, Ints
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.row_scores import ScoredRows
from epigram.evaluation.records.results import Slice

NOT_IN_TRAIN = "not in train"  # name of the slice
MIN_ROWS = 10  # rows of a value of a column below which it has no slice of its own


def length_slices(lengths: Ints) -> list[tuple[str, Bools]]:
    """Return quarters of the rows by length (N,) in characters, as (name, chosen rows); equal bounds are merged."""
    bounds = np.unique(np.quantile(lengths, [0.0, 0.25, 0.5, 0.75, 1.0], method="lower")).astype(int)
    first, last = int(bounds[0]), int(bounds[-1])
    starts = [first, *(int(bound) + 1 for bound in bounds[1:-1]), last + 1]
    spans = [(start, stop - 1) for start, stop in pairwise(starts) if start < stop]
    return [(_span(low, high), (lengths >= low) & (lengths <= high)) for low, high in spans]


def _span(low: int, high: int) -> str:
    span = str(low) if low == high else f"{low} to {high}"
    return f"{span} character{'' if high == 1 else 's'}"


def leak_slices(in_train: Bools) -> list[tuple[str, Bools]]:
    """Return the rows whose text is also in the training set, and the rest; empty if there is no such row."""
    return [("also in train", in_train), (NOT_IN_TRAIN, ~in_train)] if in_train.any() else []


def column_slices(values: Sequence[str]) -> list[tuple[str, Bools]]:
    """Return the rows of each value of a column, most rows first; values of less than MIN_ROWS rows are one part.

    A column of one value, or of such values only, has no parts.
    """
    names, codes, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    large = [code for code in np.argsort(-counts, kind="stable").tolist() if counts[code] >= MIN_ROWS][:MAX_CLASSES]
    if not large or len(names) == 1:
        return []
    found, others = [(str(names[code]) or "no value", codes == code) for code in large], ~np.isin(codes, large)
    return [*found, (f"{len(names) - len(large):,} other values", others)] if others.any() else found


def slices(
    row_scores: ScoredRows,
    texts: Sequence[str],
    in_train: Bools,
    columns: Mapping[str, Sequence[str]],
    *,
    resamples: int,
    confidence: float,
) -> list[Slice]:
    """Return score and interval of every slice that has rows."""
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    parts: list[tuple[Literal["length", "leak", "column"], str, str, Bools]] = [
        *(("length", "", name, chosen) for name, chosen in length_slices(lengths)),
        *(("leak", "", name, chosen) for name, chosen in leak_slices(in_train)),
        *(
            ("column", column, name, chosen)
            for column, values in columns.items()
            for name, chosen in column_slices(values)
        ),
    ]
    return [
        Slice(
            kind=kind,
            column=column,
            name=name,
            rows=int(chosen.sum()),
            score=score_interval(row_scores.rows(chosen), resamples=resamples, confidence=confidence),
        )
        for kind, column, name, chosen in parts
        if chosen.any()
    ]
