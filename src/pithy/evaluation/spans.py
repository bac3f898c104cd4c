"""Spans of labelled words, as seqeval finds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pithy.evaluation.arrays import Bools, Ints

PREFIXED = re.compile(r"([BIESLUM])-(.+)")  # B-PER, I-PER
SAME = {"L": "E", "U": "S", "M": "I"}  # BILOU's and BMES's names of what seqeval knows by BIOES
OUTSIDE = "O"


@dataclass(frozen=True)
class Spans:
    """M spans in the order of the words; `starts` and `ends` (both inside) are places, the same for every labelling."""

    rows: Ints  # (M,)
    starts: Ints
    ends: Ints
    kinds: NDArray[np.str_]

    def found_in(self, gold: Spans, *, typed: bool) -> Bools:
        """Which of the spans (M,) gold has too: with the same borders and, if `typed`, of the same kind."""
        if not len(gold.starts):
            return np.zeros(len(self.starts), dtype=bool)
        # Spans of one labelling do not overlap: at most one starts at a place.
        at = np.searchsorted(gold.starts, self.starts).clip(max=len(gold.starts) - 1)
        same: Bools = (gold.starts[at] == self.starts) & (gold.ends[at] == self.ends)
        if typed:
            same &= gold.kinds[at] == self.kinds
        return same


def spans_of(names: Sequence[str], labels: Ints, offsets: Ints) -> Spans:
    """The spans of words with the label numbers `labels` (T,), parted into rows by `offsets` (N + 1,)."""
    from seqeval.metrics.sequence_labeling import get_entities

    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    padded = np.full(len(labels) + len(offsets), OUTSIDE, dtype=object)  # a gap behind each row ends its last span
    padded[np.arange(len(labels)) + row] = tags(names, labels, offsets)
    found: list[Any] = get_entities(padded.tolist())
    starts, ends = (np.array([span[side] for span in found], dtype=np.int64) for side in (1, 2))
    bounds = offsets + np.arange(len(offsets))
    rows = np.searchsorted(bounds, starts, side="right") - 1
    return Spans(rows=rows, starts=starts, ends=ends, kinds=np.array([span[0] for span in found], dtype=np.str_))


def tags(names: Sequence[str], labels: Ints, offsets: Ints) -> NDArray[Any]:
    """Tags (T,) as seqeval knows them: labels with a prefix are such, of others each run of one in a row is a span."""
    others = names[1:]
    marked = any(name.startswith(("B-", "I-")) for name in others)
    begins = np.append(True, labels[1:] != labels[:-1])[: len(labels)]
    begins[offsets[:-1][offsets[:-1] < len(labels)]] = True
    begin, inside = (np.array([OUTSIDE, *(_tag(name, mark, marked) for name in others)], dtype=object) for mark in "BI")
    return np.where(begins, begin[labels], inside[labels])


def _tag(name: str, mark: str, marked: bool) -> str:
    """The tag of a label: its own where labels are `marked` by prefixes and it has one, else `mark` before its name."""
    own = PREFIXED.fullmatch(name) if marked else None  # without B- or I- an E-mail and a U-turn are plain
    return f"{SAME.get(own[1], own[1])}-{own[2]}" if own else f"{mark}-{name}"
