"""Unlabelled texts as batches of tokens with numbered words; long texts are split into pieces, not truncated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.ragged import positions_in_groups
from epigram.models.batches import UNLABELLED, TextBatches
from epigram.models.serialization import TextTemplate

SHARD_TOKENS = 4_000_000  # tokens read into memory at once


@dataclass(frozen=True)
class Texts:
    """N texts: `ids` (T,), `starts` (T,) True where a word begins, `offsets` (N + 1,); any of them memory-mapped."""

    ids: NDArray[Any]
    starts: NDArray[Any]
    offsets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def load(cls, folder: Path, part: str) -> Texts:
        """Return PART.ids.npy, PART.starts.npy and PART.offsets.npy of `folder`, memory-mapped."""
        files = {field.name: folder / f"{part}.{field.name}.npy" for field in fields(cls)}
        return cls(**{name: np.load(path, mmap_mode="r", allow_pickle=False) for name, path in files.items()})


@dataclass(frozen=True)
class Shards:
    """Pieces of `texts` that fit `frame`, loaded in shards of some million tokens on `device`."""

    texts: Texts
    frame: TextTemplate
    device: torch.device

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Start offset of every piece, and the end of the last one, (P + 1,)."""
        return piece_offsets(
            self.texts.offsets, self.frame.max_length - len(self.frame.prefix_ids + self.frame.suffix_ids)
        )

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Index of the first piece of every shard, and of the piece after its last one."""
        cuts = np.flatnonzero(np.diff(self.offsets[:-1] // SHARD_TOKENS)) + 1
        return list(pairwise([0, *cuts.tolist(), len(self.offsets) - 1]))

    def steps(self, batch_size: int) -> int:
        """Return the number of batches per epoch."""
        return sum(-(-(last - first) // batch_size) for first, last in self.edges)

    def shard(self, number: int) -> TextBatches:
        """Return one shard; a token's label is the index of its word in the piece, and an unknown token has none."""
        first, last = self.edges[number]
        offsets = self.offsets[first : last + 1]
        ids = np.array(self.texts.ids[offsets[0] : offsets[-1]])
        words = word_indices(self.texts.starts[offsets[0] : offsets[-1]], offsets - offsets[0])
        return TextBatches.from_template(
            self.frame,
            ids,
            offsets - offsets[0],
            token_labels=np.where(ids == self.frame.unk_id, UNLABELLED, words),
            device=self.device,
        )

    def shuffled(self, order: np.random.Generator) -> Iterator[TextBatches]:
        """Return an iterator over all shards in a new order."""
        return (self.shard(int(number)) for number in order.permutation(len(self.edges)))


def piece_offsets(offsets: NDArray[Any], room: int) -> NDArray[np.int64]:
    """Return the `offsets` (N + 1,) of texts with an additional one after every `room` tokens of a text, (P + 1,)."""
    counts = -(-np.diff(offsets) // room)
    starts = np.repeat(offsets[:-1], counts) + room * positions_in_groups(counts)
    return np.append(starts, offsets[-1]).astype(np.int64)


def word_indices(starts: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each token's word (T,) in its piece, from 0."""
    words = np.cumsum(starts, dtype=np.int64)
    return words - np.repeat(words[offsets[:-1]], np.diff(offsets))
