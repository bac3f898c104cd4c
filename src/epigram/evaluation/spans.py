"""Spans of labelled words, found by seqeval."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.core.ragged import Ragged
from epigram.evaluation.arrays import Bools, Ints

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
