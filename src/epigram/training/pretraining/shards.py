"""Unlabelled texts as batches of tokens with numbered words; long texts are split into pieces, not truncated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.arrays import Ragged, ranges, read_array
from epigram.models.batches import UNLABELLED, TextBatches
from epigram.models.text_template import TextTemplate

SHARD_TOKENS = 4_000_000  # tokens read into memory at once


@dataclass(frozen=True)
class Texts:
    """N texts: token ids, and `starts` (T,), True where a word begins; both may be memory-mapped."""

    ids: Ragged[Any]
    starts: NDArray[Any]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def load(cls, folder: Path, part: str) -> Texts:
        """Return PART.ids.npy, PART.starts.npy and PART.offsets.npy of `folder`, memory-mapped."""
        ids, offsets, starts = (read_array(folder / f"{part}.{name}.npy") for name in ("ids", "offsets", "starts"))
        return cls(Ragged(ids, offsets), starts)


@dataclass(frozen=True)
class Shards:
    """Pieces of `texts` that fit `frame`, loaded in shards of some million tokens on `device`."""

    texts: Texts
    frame: TextTemplate
    device: torch.device

    @cached_property
    def pieces(self) -> Ragged[Any]:
        """Token ids of every piece, (P rows)."""
        return split_rows(self.texts.ids, self.frame.max_length - len(self.frame.prefix_ids + self.frame.suffix_ids))

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Index of the first piece of every shard, and of the piece after its last one."""
        cuts = np.flatnonzero(np.diff(self.pieces.starts // SHARD_TOKENS)) + 1
        return list(pairwise([0, *cuts.tolist(), len(self.pieces)]))

    def steps(self, batch_size: int) -> int:
        """Return the number of batches per epoch."""
        return sum(-(-(last - first) // batch_size) for first, last in self.edges)

    def shard(self, number: int) -> TextBatches:
        """Return one shard; a token's label is the index of its word in the piece, and an unknown token has none."""
        first, last = self.edges[number]
        pieces = self.pieces[first:last]
        words = word_indices(self.pieces.with_values(self.texts.starts)[first:last])
        return TextBatches.from_template(
            self.frame,
            pieces,
            token_labels=np.where(pieces.values == self.frame.unk_id, UNLABELLED, words),
            device=self.device,
        )

    def shuffled(self, order: np.random.Generator) -> Iterator[TextBatches]:
        """Return an iterator over all shards in a new order."""
        return (self.shard(int(number)) for number in order.permutation(len(self.edges)))


def split_rows(rows: Ragged[Any], room: int) -> Ragged[Any]:
    """Return `rows` where a row of more than `room` values is split after every `room` of them, without a copy."""
    counts = -(-rows.lengths // room)
    pieces = ranges(np.zeros(len(counts), np.int64), counts)  # number of each piece in its row
    starts = pieces.spread(rows.starts) + room * pieces.values
    return Ragged(rows.values, np.append(starts, rows.offsets[-1]))


def word_indices(starts: Ragged[Any]) -> NDArray[np.int64]:
    """Return the index of each token's word (T,) in its piece, from 0; `starts` is True where a word begins."""
    words = np.cumsum(starts.values, dtype=np.int64)
    return np.asarray(words - starts.spread(words[starts.starts]))
