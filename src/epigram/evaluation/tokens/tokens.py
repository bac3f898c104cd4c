"""Scores of labelled words. Label 0 is the default label; precision, recall and F count only the other labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.evaluation.arrays import Bools, Floats, Ints, ratio
from epigram.evaluation.metrics.row_scores import RowScores
from epigram.evaluation.records.results import TokenScores

PREFIXED = re.compile(r"([BIESLUM])-(.+)")  # B-PER, I-PER
BIOES_PREFIX = {"L": "E", "U": "S", "M": "I"}  # prefixes of BILOU and BMES → the BIOES prefixes of seqeval
OUTSIDE = "O"


@dataclass(frozen=True)
class Spans:
    """M spans in word order; `starts` and `ends` (both inclusive) are positions, comparable between labellings."""

    rows: Ints  # (M,)
    starts: Ints
    ends: Ints
    kinds: NDArray[np.str_]

    def found_in(self, gold: Spans, *, typed: bool) -> Bools:
        """Return which of the spans (M,) are also in gold, with the same borders and, if `typed`, the same type."""
        if not len(gold.starts):
            return np.zeros(len(self.starts), dtype=bool)
        # Spans of one labelling do not overlap, so at most one starts at each position.
        at = np.searchsorted(gold.starts, self.starts).clip(max=len(gold.starts) - 1)
        same: Bools = (gold.starts[at] == self.starts) & (gold.ends[at] == self.ends)
        if typed:
            same &= gold.kinds[at] == self.kinds
        return same


def spans_of(names: Sequence[str], labels: Ragged[Any]) -> Spans:
    """Return the spans of the words of N rows, given their label numbers."""
    from seqeval.metrics.sequence_labeling import get_entities

    count = len(labels.values)
    padded = np.full(count + len(labels.offsets), OUTSIDE, dtype=object)  # an O after each row ends its last span
    padded[np.arange(count) + labels.row_numbers()] = tags(names, labels)
    entities: list[Any] = get_entities(padded.tolist())
    starts, ends = (np.array([span[side] for span in entities], dtype=np.int64) for side in (1, 2))
    bounds = labels.offsets + np.arange(len(labels.offsets))
    rows = np.searchsorted(bounds, starts, side="right") - 1
    return Spans(rows=rows, starts=starts, ends=ends, kinds=np.array([span[0] for span in entities], dtype=np.str_))


def tags(names: Sequence[str], labels: Ragged[Any]) -> NDArray[Any]:
    """Return the tags (T,) of the words for seqeval.

    A label with a span prefix keeps its prefix. For other labels, each run of equal labels in a row is one span.
    """
    others = names[1:]
    marked = any(name.startswith(("B-", "I-")) for name in others)
    numbers = labels.values
    begins = np.asarray(labels.positions() == 0)
    begins[1:] |= numbers[1:] != numbers[:-1]
    begin, inside = (np.array([OUTSIDE, *(_tag(name, mark, marked) for name in others)], dtype=object) for mark in "BI")
    return np.asarray(np.where(begins, begin[numbers], inside[numbers]))


def _tag(name: str, mark: str, marked: bool) -> str:
    """Return the tag of a label: with its own prefix if `marked` and it has one, else `mark` before its name."""
    own = PREFIXED.fullmatch(name) if marked else None  # if no label has B- or I-, E-mail and U-turn are plain names
    return f"{BIOES_PREFIX.get(own[1], own[1])}-{own[2]}" if own else f"{mark}-{name}"


@dataclass(frozen=True)
class Counts:
    """Counts per row: correctly predicted items (K, N), predicted items (K, N) and gold items (N,)."""

    hits: Ints
    predicted: Ints
    gold: Ints

    def row_scores(self, beta: float = 1.0) -> RowScores:
        """Return what each row adds to F_β = (1 + β²)·TP / ((1 + β²)·TP + β²·FN + FP)."""
        weight = beta**2  # weight of a gold item; a predicted item has weight 1
        gained = (1 + weight) * self.hits
        return RowScores(gained, np.broadcast_to(weight * self.gold + self.predicted, gained.shape))

    def precision(self) -> Floats:
        """Return the share of the predicted items that are correct, (K,)."""
        return ratio(self.hits.sum(1), self.predicted.sum(1))

    def recall(self) -> Floats:
        """Return the share of the gold items that are found, (K,)."""
        return ratio(self.hits.sum(1), self.gold.sum())


@dataclass(frozen=True)
class LabelledWords:
    """Label numbers of a split's words: `gold` for N rows, and `predicted` (K, T) for K seeds and all T words.

    Spans are derived from the label `names`.
    """

    gold: Ragged[Any]
    predicted: Ints
    names: Sequence[str] = ()

    @classmethod
    def of(cls, gold: Ragged[Any], predicted: Ints | None, *, seeds: int, names: Sequence[str] = ()) -> LabelledWords:
        """Return the labels of a split; without word predictions, every word gets the default label."""
        default = np.zeros((seeds, len(gold.values)), dtype=gold.values.dtype)
        return cls(gold, default if predicted is None else predicted, names)

    @cached_property
    def words(self) -> Counts:
        """Counts of words with a label other than the default one."""
        gold = self.gold.values
        right = (self.predicted == gold) & (gold > 0)
        return Counts(self._by_row(right), self._by_row(self.predicted > 0), self._by_row(gold > 0))

    @cached_property
    def spans(self) -> Counts:
        """Counts of whole spans with the right borders and type."""
        return self._spans(typed=True)

    @cached_property
    def borders(self) -> Counts:
        """Counts of spans with the right borders, whatever their type."""
        return self._spans(typed=False)

    def scores(self) -> list[TokenScores]:
        """Return the scores of every seed."""
        columns = {
            "accuracy": ratio((self.predicted == self.gold.values).sum(1), np.array(len(self.gold.values))),
            "f05": self.words.row_scores(beta=0.5).scores(),
        }
        for prefix, counts in (("", self.words), ("span_", self.spans), ("border_", self.borders)):
            columns[f"{prefix}precision"] = counts.precision()
            columns[f"{prefix}recall"] = counts.recall()
            columns[f"{prefix}f1"] = counts.row_scores().scores()
        rows = np.array(list(columns.values())).T.tolist()
        return [TokenScores(**dict(zip(columns, row, strict=True))) for row in rows]

    @cached_property
    def _all_spans(self) -> tuple[Spans, list[Spans]]:
        """Spans of gold and of every seed; cached because finding them is the slowest part."""
        gold, *seeds = (
            spans_of(self.names, self.gold.with_values(each)) for each in (self.gold.values, *self.predicted)
        )
        return gold, seeds

    def _spans(self, *, typed: bool) -> Counts:
        gold, seeds = self._all_spans
        hits = [self._rows(seed.rows[seed.found_in(gold, typed=typed)]) for seed in seeds]
        return Counts(np.stack(hits), np.stack([self._rows(seed.rows) for seed in seeds]), self._rows(gold.rows))

    def _by_row(self, flags: Bools) -> Ints:
        """Return the number of true flags in each row, (..., N), from one flag per word, (..., T)."""
        return self.gold.with_values(flags.T).sums().T

    def _rows(self, rows: Ints) -> Ints:
        """Return the number of spans in each row, (N,), from the row number of every span, (M,)."""
        return np.bincount(rows, minlength=len(self.gold))
