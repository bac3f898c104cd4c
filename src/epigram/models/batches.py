"""Batches of texts of similar length, gathered by index from flat arrays on the device."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epigram.core.arrays import Ragged, ranges
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import Tokens

Rows = NDArray[np.int64]
UNLABELLED = -1
NO_WORD = -1.0  # word weight of prompt, special tokens and padding
EMPTY = -1  # start of a text without tokens, which is read as one unknown token
BLOCK = 100_000  # texts whose positions are in memory at once
POOL = 64  # batches per pool; the texts of a pool are sorted together
SPREAD = 0.15  # maximum relative change of a length, at random, before sorting


class CharacterArrays:
    """Characters of all tokens, one row per token, as tensors."""

    def __init__(self, rows: Ragged[Any], device: torch.device | str) -> None:
        self.characters = as_tensor(rows.values if len(rows.values) else np.zeros(1, np.int32), device)
        self.offsets = as_tensor(rows.offsets if len(rows) else np.zeros(2, np.int64), device)

    def gather(self, index: Tensor, inside: Tensor) -> Tensor:
        """Return the characters (B, L, W) of the tokens `index` (B, L), padded with 0 to the W of the longest token.

        Positions where `inside` (B, L) is False get no characters.
        """
        starts = self.offsets[index]
        counts = torch.where(inside, self.offsets[index + 1] - starts, 0)
        position = torch.arange(max(1, int(counts.max())), device=index.device)  # (W,)
        characters = self.characters[(starts.unsqueeze(-1) + position).clamp(max=len(self.characters) - 1)]
        return torch.where(position < counts.unsqueeze(-1), characters, 0).long()


class TextBatches:
    """Texts as one flat tensor of token ids; each batch is a gather, without parsing and without copying lists.

    On the CPU the tensors of the tokens share the memory of the given arrays, which may be memory-mapped.

    `texts` has the token ids of the N texts, without prefix and suffix. `prefix` (prompt) and `suffix` are put around
    each text, and the text is truncated so that the whole fits `max_length`; prompt and special tokens are never
    truncated. An empty text becomes one unknown token. `token_labels` (T,) are the labels of the tokens, `UNLABELLED`
    for a token without one. `characters` has the characters of each of the T tokens, and `word_weight` (T,) the
    part-of-speech weights of their words. `plain_class` is the class with the smallest share of tokens with a label
    other than the default. `label_names` are the names of the C labels as texts, if a fit uses them.

    Raises ValueError if `max_length` leaves no room for text.
    """

    def __init__(
        self,
        texts: Ragged[Any],
        *,
        prefix: list[int],
        suffix: list[int],
        max_length: int,
        pad_id: int,
        unk_id: int,
        labels: NDArray[Any] | None = None,
        token_labels: NDArray[Any] | None = None,
        characters: Ragged[Any] | None = None,
        plain_class: int = 0,
        word_weight: NDArray[Any] | None = None,
        label_names: TextBatches | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        max_text = max_length - len(prefix) - len(suffix)
        if max_text < 1:
            raise ValueError(f"max_length {max_length} leaves no room for text after {len(prefix)} prompt tokens")
        counts = np.minimum(texts.lengths, max_text)
        self.ids = _of_tokens(texts.values, unk_id, device)
        self.starts = as_tensor(np.where(counts == 0, EMPTY, texts.starts), device)
        self.counts = as_tensor(np.maximum(counts, 1), device)
        self.prefix = torch.tensor(prefix, dtype=torch.int64, device=device)
        self.suffix = torch.tensor(suffix, dtype=torch.int64, device=device)
        self.labels = None if labels is None else as_tensor(labels, device)
        self.token_labels = None if token_labels is None else _of_tokens(token_labels, UNLABELLED, device)
        self.characters = None if characters is None else CharacterArrays(characters, device)
        self.word_weight = None if word_weight is None else _of_tokens(word_weight, NO_WORD, device)
        self.lengths: Rows = np.maximum(counts, 1) + len(prefix) + len(suffix)
        self.pad_id, self.unk_id, self.plain_class, self.device = pad_id, unk_id, plain_class, torch.device(device)
        self.label_names = label_names

    @classmethod
    def from_template(cls, frame: TextTemplate, texts: Ragged[Any], **more: Any) -> TextBatches:
        """Return `texts` in the input format `frame` of a model; `more` is passed to the constructor."""
        return cls(
            texts,
            prefix=frame.prefix_ids,
            suffix=frame.suffix_ids,
            max_length=frame.max_length,
            pad_id=frame.pad_id,
            unk_id=frame.unk_id,
            plain_class=frame.plain_class,
            **more,
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def median_length(self) -> int:
        """Tokens of the median text, prompt and special tokens included, rounded down; FLOPs are counted for it."""
        return int(np.median(self.lengths))

    def part(self, rows: Rows) -> TextBatches:
        """Return the texts `rows` (B,) as texts of their own, which share the arrays of tokens."""
        index, some = torch.from_numpy(rows).to(self.device), copy(self)
        some.starts, some.counts, some.lengths = self.starts[index], self.counts[index], self.lengths[rows]
        some.labels = None if self.labels is None else self.labels[index]
        return some

    def token_places(self, rows: Rows) -> Ragged[np.int64]:
        """Return the places, in the arrays of tokens, of the tokens of the texts `rows`; an empty text has none."""
        index = torch.from_numpy(rows).to(self.device)
        starts, counts = self.starts[index].cpu().numpy(), self.counts[index].cpu().numpy()
        return ranges(starts, np.where(starts == EMPTY, 0, counts))

    def gather(self, rows: Rows) -> Tokens:
        """Return the texts `rows` (B,) as ids and mask (B, L), where L is the length of the longest one."""
        index = to_device(rows, self.device)
        counts, starts = self.counts[index], self.starts[index]
        before, after = len(self.prefix), len(self.suffix)
        lengths = self.lengths[rows]
        width = int(lengths.max())
        position = torch.arange(width, device=self.device)  # (L,)
        text_position = position - before
        inside = (text_position >= 0) & (text_position < counts[:, None])  # (B, L)
        own = inside & (starts[:, None] != EMPTY)
        flat = (starts[:, None] + text_position).clamp(0, len(self.ids) - 1)
        ids = torch.where(own, self.ids[flat].long(), torch.where(inside, self.unk_id, self.pad_id))
        ids[:, :before] = self.prefix
        if after:
            tail = before + counts[:, None] + torch.arange(after, device=self.device)
            ids.scatter_(1, tail, self.suffix.expand(len(rows), -1))
        labels, weight = self.token_labels, self.word_weight
        return Tokens(
            ids,
            position < (counts + before + after)[:, None],
            characters=None if self.characters is None else self.characters.gather(flat, own),
            labels=None if labels is None else torch.where(own, labels[flat].long(), UNLABELLED),
            word_weight=None if weight is None else torch.where(own, weight[flat].float(), NO_WORD),
            lengths=lengths,
        )

    def targets(self, rows: Rows) -> Tensor:
        """Return the labels of `rows`."""
        assert self.labels is not None
        return self.labels[to_device(rows, self.device)]

    def own_tokens(self, rows: Rows, shape: torch.Size) -> Tensor:
        """Return the mask (B, L) of the texts' own tokens in a batch: not prompt, special tokens or padding."""
        position = torch.arange(shape[1], device=self.device) - len(self.prefix)
        counts = self.counts[to_device(rows, self.device)]
        return (position >= 0) & (position < counts[:, None])

    def read_labels(self) -> NDArray[np.int64] | None:
        """Return the labels of all texts' own tokens after truncation, (T,), in the order of `Predicted.tokens`."""
        if self.token_labels is None:
            return None
        rows = ranges(self.starts.cpu().numpy(), self.counts.cpu().numpy())
        labels = self.token_labels.cpu().numpy()[rows.values]
        return np.where(rows.spread(rows.values[rows.starts] != EMPTY), labels, UNLABELLED).astype(np.int64)

    def epoch(self, generator: np.random.Generator, batch_size: int, max_tokens: int) -> list[Rows]:
        """Return all rows in a new order as batches of similar length.

        Random pools of rows are sorted by length times 1 ± SPREAD, then the batches are shuffled. Length can reveal the
        label, so a batch of texts of one length has few of the labels. This costs accuracy if all texts fit into one
        pool (docs/development/log.md). With more texts, the many steps average it out, so the spread is smaller.
        """
        order, pool = generator.permutation(len(self)), POOL * batch_size
        spread = SPREAD * min(1.0, pool / len(order))
        keys = self.lengths[order] * generator.uniform(1 - spread, 1 + spread, len(order))
        batches = [
            rows
            for start in range(0, len(order), pool)
            for rows in self._cut(_sorted(order, keys, slice(start, start + pool)), batch_size, max_tokens)
        ]
        return [batches[i] for i in generator.permutation(len(batches))]

    def in_order(self, batch_size: int, max_tokens: int) -> Iterator[Rows]:
        """Return all rows once as batches for inference, the longest texts first."""
        return self._cut(np.argsort(self.lengths, kind="stable"), batch_size, max_tokens)

    def _cut(self, rows: Rows, batch_size: int, max_tokens: int) -> Iterator[Rows]:
        """Cut rows, the longest last, into batches of at most `batch_size` texts and `max_tokens` padded tokens."""
        end = len(rows)
        while end > 0:
            longest = int(self.lengths[rows[max(0, end - batch_size) : end]].max())
            size = max(1, min(batch_size, max_tokens // longest))
            yield rows[max(0, end - size) : end]
            end -= size


def as_tensor(values: NDArray[Any], device: torch.device | str) -> Tensor:
    """Return `values` as a tensor that is only read: on the CPU without a copy if their layout allows it."""
    array = np.ascontiguousarray(values)
    if array.flags.writeable:
        return torch.from_numpy(array).to(device)
    with warnings.catch_warnings():  # PyTorch warns not to write to a memory-mapped file
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array).to(device)


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """Return `values` as a tensor on `device`; the host does not wait for a GPU, which copies from pinned memory."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _of_tokens(values: NDArray[Any], filler: float, device: torch.device | str) -> Tensor:
    """Return the values of the tokens of all texts (T,), or `filler` if all texts are empty."""
    return as_tensor(values if len(values) else np.full(1, filler, values.dtype), device)


def _sorted(order: Rows, keys: NDArray[np.float64], pool: slice) -> Rows:
    """Return the rows of a pool of `order`, sorted by their `keys`."""
    return order[pool][np.argsort(keys[pool], kind="stable")]
