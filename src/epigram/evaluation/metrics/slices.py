"""Scores of parts of the test set: by text length, and by whether a text is also in the training set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from epigram.evaluation.arrays import Bools, Ints
from epigram.evaluation.metrics.intervals import score_interval
from epigram.evaluation.metrics.row_scores import ScoredRows
from epigram.evaluation.records.results import Slice

NOT_IN_TRAIN = "not in train"  # name of the slice


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


def slices(
    row_scores: ScoredRows, texts: Sequence[str], in_train: Bools, *, resamples: int, confidence: float
) -> list[Slice]:
    """Return score and interval of every slice that has rows."""
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    parts: list[tuple[Literal["length", "leak"], str, Bools]] = [
        *(("length", name, chosen) for name, chosen in length_slices(lengths)),
        *(("leak", name, chosen) for name, chosen in leak_slices(in_train)),
    ]
    return [
        Slice(
            kind=kind,
            name=name,
            rows=int(chosen.sum()),
            score=score_interval(row_scores.rows(chosen), resamples=resamples, confidence=confidence),
        )
        for kind, name, chosen in parts
        if chosen.any()
    ]
